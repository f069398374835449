"""The records of a travel desk: employees, flights, hotels and calendars; sampled and stored in SQLite."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

import numpy as np

from envs.tools.database import database_image
from envs.tools.travel.times import NOW, OFFICES, at_hour, format_time

EMPLOYEES = 6
FIRST_NAMES = ("Alma", "Boris", "Celia", "Danilo", "Elif", "Frida", "Goran", "Hanna", "Ivo", "Jana", "Kofi", "Lucia")
LAST_NAMES = ("Adler", "Berg", "Conti", "Duarte", "Egger", "Falk", "Gomes", "Hansen", "Ilic", "Jansen", "Krug", "Lopez")
TITLES = ("budget", "roadmap", "hiring", "launch", "survey", "supply", "audit", "pricing", "safety", "design")
HOTELS = ("Anchor", "Beacon", "Cedar", "Dove", "Falcon", "Garden", "Harbour", "Iris", "Juniper", "Kite", "Linden")
NIGHTS = tuple(NOW.date() + timedelta(days) for days in range(7, 23))  # for which hotels take bookings
DAYS = (*NIGHTS[:5], *NIGHTS[7:12])  # on which flights leave and meetings take place, Mondays to Fridays
FLEX_FEE = 6_000  # cents that a flexible ticket costs more
FLIGHT_HOURS = (6, 8, 10, 12, 14)  # in the local time of the origin
SCHEMA = """
create table travellers (traveller text primary key, name text, email text, badge text, office text);
create table flights (flight text primary key, origin text, destination text, departs text, lands text, price integer,
    seats integer, note text);
create table bookings (booking text primary key, traveller text, flight text, ticket text, price integer, status text,
    code text, note text);
create table refunds (booking text, reason text, amount integer);
create table hotels (hotel text primary key, name text, city text, price integer, breakfast integer, note text);
create table rooms (hotel text, night text, free integer, primary key (hotel, night));
create table stays (traveller text, hotel text, arrival text, nights integer, price integer);
create table meetings (meeting text primary key, title text, organiser text, starts text, ends text, note text);
create table invitations (meeting text, traveller text, answer text, primary key (meeting, traveller));
create table cases (outcome text);
create index bookings_by_traveller on bookings (traveller);
create index invitations_by_traveller on invitations (traveller);
create index meetings_by_organiser on meetings (organiser);
create index flights_by_route on flights (origin, destination);
"""


@dataclass
class Traveller:
    """An employee. `badge` is the number on the badge, which only the employee and the records know."""

    id: str
    name: str
    email: str
    badge: str
    office: str

    @property
    def first_name(self) -> str:
        """The name that colleagues use."""
        return self.name.split()[0]


@dataclass
class Flight:
    """A flight. Times are in UTC; the price, of a saver ticket, is in cents."""

    id: str
    origin: str
    destination: str
    departs: datetime
    lands: datetime
    price: int
    seats: int = 9
    note: str = ""

    def fare(self, ticket: str) -> int:
        """The price with this ticket, `saver` or `flex`."""
        return self.price + (FLEX_FEE if ticket == "flex" else 0)


@dataclass
class Booking:
    """A booked flight."""

    id: str
    traveller: Traveller
    flight: Flight
    ticket: str
    code: str
    note: str = ""


@dataclass
class Hotel:
    """A hotel. The price of a night is in cents; `full` are the nights without a free room."""

    id: str
    name: str
    city: str
    price: int
    breakfast: bool
    full: set[date] = field(default_factory=set)
    note: str = ""


@dataclass
class Meeting:
    """A meeting of an organiser with employees who have accepted, declined or not answered (`open`) the invitation."""

    id: str
    title: str
    organiser: Traveller
    start: datetime
    minutes: int
    answers: list[tuple[Traveller, str]]
    note: str = ""

    @property
    def end(self) -> datetime:
        """When it ends, in UTC."""
        return self.start + timedelta(minutes=self.minutes)

    def is_in_calendar_of(self, person: Traveller) -> bool:
        """Whether somebody attends: organises it, or has accepted."""
        return self.organiser is person or (person, "accepted") in self.answers


@dataclass
class Agency:
    """All records of a travel desk."""

    travellers: list[Traveller]
    ids: list[int]  # numbers that nothing has yet
    titles: list[str]  # that no meeting has yet
    flights: list[Flight] = field(default_factory=list)
    bookings: list[Booking] = field(default_factory=list)
    hotels: list[Hotel] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)

    def meetings_of(self, person: Traveller) -> list[Meeting]:
        """The meetings that an employee organises or is invited to."""
        return [
            meeting
            for meeting in self.meetings
            if person is meeting.organiser or any(guest is person for guest, _ in meeting.answers)
        ]

    def new_id(self, letter: str) -> str:
        """Return a number that nothing has yet, such as F412."""
        return f"{letter}{self.ids.pop()}"

    def bookings_of(self, person: Traveller) -> list[Booking]:
        """The booked flights of an employee."""
        return [booking for booking in self.bookings if booking.traveller is person]

    def add_flights(self, rng: np.random.Generator, origin: str, destination: str, day: date) -> list[Flight]:
        """Let flights of a route leave on a day, one for each of `FLIGHT_HOURS`, and return them by their hours.

        All of them take equally long, and no two cost the same.
        """
        flights, length = [], timedelta(minutes=int(rng.integers(6, 14)) * 15)
        prices = rng.choice(20, len(FLIGHT_HOURS), replace=False)
        for hour, price in zip(FLIGHT_HOURS, prices, strict=True):
            departs = at_hour(day, hour, origin, int(rng.integers(0, 4)) * 15)
            cents = 14_090 + 700 * int(price)
            flights.append(Flight(self.new_id("F"), origin, destination, departs, departs + length, cents))
        self.flights += flights
        return flights

    def book(self, rng: np.random.Generator, person: Traveller, flight: Flight, ticket: str) -> Booking:
        """Book a flight for an employee."""
        booking = Booking(self.new_id("B"), person, flight, ticket, f"CK{rng.integers(100_000, 1_000_000)}")
        self.bookings.append(booking)
        return booking

    def meet(
        self, organiser: Traveller, guest: Traveller, start: datetime, *, minutes: int = 60, answer: str = "accepted"
    ) -> Meeting:
        """Let two employees have a meeting; `answer` is that of the guest to the invitation."""
        meeting = Meeting(self.new_id("M"), self.titles.pop(), organiser, start, minutes, [(guest, answer)])
        self.meetings.append(meeting)
        return meeting

    def is_busy(self, person: Traveller, start: datetime, end: datetime) -> bool:
        """Whether a time overlaps the calendar of an employee: meetings that they attend, and their flights."""
        return any(
            meeting.start < end and start < meeting.end
            for meeting in self.meetings
            if meeting.is_in_calendar_of(person)
        ) or any(booking.flight.departs < end and start < booking.flight.lands for booking in self.bookings_of(person))

    def image(self) -> bytes:
        """Return the image of a database that holds the records (`SCHEMA`)."""
        tables = (
            ("travellers", [(t.id, t.name, t.email, t.badge, t.office) for t in self.travellers]),
            ("flights", [_flight_row(flight) for flight in self.flights]),
            ("bookings", [_booking_row(booking) for booking in self.bookings]),
            ("hotels", [(h.id, h.name, h.city, h.price, int(h.breakfast), h.note) for h in self.hotels]),
            ("rooms", [(h.id, day.isoformat(), 0 if day in h.full else 2) for h in self.hotels for day in NIGHTS]),
            ("meetings", [_meeting_row(meeting) for meeting in self.meetings]),
            ("invitations", [(m.id, who.id, answer) for m in self.meetings for who, answer in m.answers]),
        )
        return database_image(SCHEMA, tables)


def sample_agency(rng: np.random.Generator) -> Agency:
    """Draw employees, of whom the last two have the same first name, with a meeting each.

    Each employee works at another office. The flights, hotels and meetings of a case come on top.
    """
    offices = [str(office) for office in rng.permutation(list(OFFICES))]
    ids = rng.permutation(np.arange(100, 1000)).tolist()
    first_names = [FIRST_NAMES[place] for place in rng.permutation(len(FIRST_NAMES))[: EMPLOYEES - 1]]
    last_names = [LAST_NAMES[place] for place in rng.permutation(len(LAST_NAMES))[:EMPLOYEES]]
    travellers = []
    for place, last in enumerate(last_names):
        first = first_names[min(place, EMPLOYEES - 2)]
        email = f"{first}.{last}@office.example".lower()
        badge = str(rng.integers(10_000, 100_000))
        travellers.append(Traveller(f"T{ids.pop()}", f"{first} {last}", email, badge, offices[place % len(offices)]))
    agency = Agency(travellers, ids, [str(title) for title in rng.permutation(TITLES)])
    for place, organiser in enumerate(travellers):
        guest = travellers[(place + 1) % EMPLOYEES]
        day, hour = DAYS[int(rng.integers(len(DAYS)))], int(rng.integers(7, 15))
        agency.meet(organiser, guest, at_hour(day, hour, organiser.office))
    return agency


def money(cents: int) -> str:
    """Write an amount: `4790` is "47.90"."""
    return f"{cents / 100:.2f}"


def _flight_row(flight: Flight) -> tuple[object, ...]:
    times = (format_time(flight.departs), format_time(flight.lands))
    return (flight.id, flight.origin, flight.destination, *times, flight.price, flight.seats, flight.note)


def _booking_row(booking: Booking) -> tuple[object, ...]:
    price = booking.flight.fare(booking.ticket)
    names = (booking.id, booking.traveller.id, booking.flight.id, booking.ticket)
    return (*names, price, "booked", booking.code, booking.note)


def _meeting_row(meeting: Meeting) -> tuple[object, ...]:
    names = (meeting.id, meeting.title, meeting.organiser.id)
    return (*names, format_time(meeting.start), format_time(meeting.end), meeting.note)
