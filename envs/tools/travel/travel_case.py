"""A case of the travel desk, and the choices that its policy prescribes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import numpy as np

from envs.tools.desk.case import Case, Texts
from envs.tools.travel.agency import DAYS, Agency, Booking, Flight, Hotel, Meeting, Traveller, money
from envs.tools.travel.times import OFFICES, local, spoken_day

MAX_FARE, MAX_NIGHT_PRICE = 40_000, 15_000  # cents
MAX_MINUTES = 90  # of a meeting
WORK_FROM, WORK_TO = 8, 18  # hours in each office
NOTICE_HOURS = 24  # before departure, until which a booking can be changed
KEEP: Texts = ("If that does not work, I would rather leave everything as it is.", "keep")


class Window(NamedTuple):
    """When somebody can leave: before an hour, or from it on, in the time of their office."""

    is_before: bool
    hour: int

    def fits(self, flight: Flight) -> bool:
        """Whether a flight leaves then."""
        hour = local(flight.departs, flight.origin).hour
        return hour < self.hour if self.is_before else hour >= self.hour

    def spoken(self) -> Texts:
        """How the employee says it."""
        if self.is_before:
            return (f"I have to leave before {self.hour:02d}:00 my time.", f"before {self.hour:02d}:00")
        return (f"I can leave at {self.hour:02d}:00 my time or later.", f"from {self.hour:02d}:00")


@dataclass
class TravelCase(Case):
    """A case of the travel desk.

    Attributes:
        agency: The records.
        bookings: The two flights that the employee has booked, to different cities.
        subject: Numbers of what the wish is about, which the employee confirms.
        booking: The booking that the wish is about, or that a hotel goes with; None for none.
        guest: The colleague of a meeting; None for none.
        meeting: The meeting that the wish is about; None for none.
        places: City and days that the right way to settle the wish looks up: destination first.
        is_blocked: Whether the first wish cannot be met, so that the employee is asked what else they want.
        second: The booking of a second wish, to know its check-in code; None for none.
    """

    agency: Agency
    bookings: tuple[Booking, Booking]
    subject: tuple[str, ...] = ()
    booking: Booking | None = None
    guest: Traveller | None = None
    meeting: Meeting | None = None
    places: tuple[str, ...] = ()
    is_blocked: bool = False
    second: Booking | None = None

    def allow(self, name: str, **arguments: object) -> None:
        """Make a call the next right one; the numbers in it, but the employee's own, are the subject."""
        self.writes.append((name, arguments))
        numbers = [str(value) for key, value in arguments.items() if key in _NUMBERS and value != self.owner.id]
        self.subject = tuple(dict.fromkeys([*self.subject, *numbers]))

    def add_second_wish(self, booking: Booking) -> None:
        """Let the employee ask for the check-in code of another booking, too."""
        self.second = booking
        number = booking.id
        self.second_wish = (f"Yes: what is the check-in code of my booking {number}?", f"code {number}")
        self.facts.append(("code", booking.code))

    def free_days(self, rng: np.random.Generator) -> list[date]:
        """The days on which the employee has neither a flight nor a meeting, in any order."""
        busy_days = {booking.flight.departs.date() for booking in self.agency.bookings_of(self.owner)}
        busy_days |= {meeting.start.date() for meeting in self.agency.meetings_of(self.owner)}
        return [DAYS[place] for place in rng.permutation(len(DAYS)) if DAYS[place] not in busy_days]

    def offer(self, instead: Texts | None) -> None:
        """Say what the employee wants if the first wish cannot be met; None to leave everything as it is."""
        self.is_blocked = True
        self.answers["fallback"] = [instead or KEEP]

    def tell_amount(self, cents: int) -> None:
        """Add an amount to what the employee must be told."""
        self.facts.append(("amount", money(cents)))


_NUMBERS = ("booking", "flight", "hotel", "meeting", "guest")


def day_answer(day: date) -> Texts:
    """Say on which day."""
    return (f"On {spoken_day(day)}.", day.isoformat())


def fitting_flights(agency: Agency, person: Traveller, flights: list[Flight], window: Window) -> list[Flight]:
    """The flights that an employee can take, the cheapest first: in time, with a seat, and without an overlap."""
    fitting = [
        flight
        for flight in flights
        if window.fits(flight) and flight.seats and not agency.is_busy(person, flight.departs, flight.lands)
    ]
    return sorted(fitting, key=lambda flight: flight.price)


def fitting_hotels(hotels: list[Hotel], days: set[date], *, breakfast: bool) -> list[Hotel]:
    """The hotels that have a room for all days, and breakfast if it is wanted, the cheapest first."""
    fitting = [hotel for hotel in hotels if not hotel.full & days and (hotel.breakfast or not breakfast)]
    return sorted(fitting, key=lambda hotel: hotel.price)


def work_hours(first: Traveller, second: Traveller, minutes: int) -> list[int]:
    """The full hours in UTC at which a meeting of two lies within the working hours of both."""
    ahead = [OFFICES[person.office] for person in (first, second)]
    earliest, latest = WORK_FROM - min(ahead), WORK_TO - max(ahead)
    return [hour for hour in range(earliest, latest) if 60 * hour + minutes <= 60 * latest]
