"""Cases about flights and hotels: book, change, cancel, a hotel, a check-in code."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np

from envs.tools.desk.case import Texts
from envs.tools.travel.agency import HOTELS as HOTEL_NAMES
from envs.tools.travel.agency import NIGHTS, Flight, Hotel
from envs.tools.travel.times import NOW, OFFICES, local, spoken_day
from envs.tools.travel.travel_case import (
    KEEP,
    MAX_FARE,
    MAX_NIGHT_PRICE,
    TravelCase,
    Window,
    day_answer,
    fitting_flights,
    fitting_hotels,
)

WINDOWS = (Window(True, 10), Window(True, 12), Window(False, 10), Window(False, 12))
DECOY, LEAVE_IT = 0.4, 0.3  # shares of cases


def build_booking(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants a flight."""
    office, city = case.owner.office, _unvisited_city(case, rng)
    case.wish = (f"Hello, I need a flight from {office} to {city}.", f"book {city}")
    case.places = (city,)
    ticket, why = ("flex", "I may have to change it.") if rng.random() < 0.5 else ("saver", "My plans are fixed.")
    case.answers["ticket"] = [(f"{why} A {ticket} ticket, please.", ticket)]
    flight = _choose_flight(case, rng, city, ticket)
    if flight:
        case.allow("book_flight", traveller=case.owner.id, flight=flight.id, ticket=ticket)
        case.tell_amount(flight.fare(ticket))
    _withdraw_or_refuse(case)


def build_change(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants another day for a booked flight."""
    booking = case.booking = case.bookings[0]
    city = booking.flight.destination
    case.wish = (f"Hi, I have to move my flight to {city} to another day.", f"change {city}")
    case.places, case.subject = (city,), (booking.id,)
    is_saver = case.trap in ("rule", "claim") and rng.random() < 0.5
    booking.ticket = "saver" if is_saver else "flex"
    if case.trap in ("rule", "claim") and not is_saver:
        _leave_soon(booking.flight, rng)
    flight = _choose_flight(case, rng, city, booking.ticket)
    if case.trap in ("rule", "claim"):
        return case.refuse(5 if is_saver else 3)
    if flight:
        case.allow("change_flight", booking=booking.id, flight=flight.id)
        case.tell_amount(max(0, flight.fare("flex") - booking.flight.fare("flex")))
    return _withdraw_or_refuse(case)


def build_cancellation(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants to cancel a booked flight."""
    booking = case.booking = case.bookings[0]
    city = booking.flight.destination
    case.wish = (f"Hello, please cancel my flight to {city}.", f"cancel {city}")
    case.subject = (booking.id,)
    is_ill = bool(rng.random() < 0.5)
    reason = ("I am ill and cannot travel.", "ill") if is_ill else ("The customer called the visit off.", "other")
    case.answers["reason"] = [reason]
    booking.ticket = "flex" if rng.random() < 0.3 else "saver"
    if case.trap in ("rule", "claim"):
        _leave_soon(booking.flight, rng)
        return case.refuse(3)
    case.allow("cancel_flight", booking=booking.id, reason=reason[1])
    price = booking.flight.fare(booking.ticket)
    case.tell_amount(price if is_ill or booking.ticket == "flex" else price // 2)
    return _withdraw_or_refuse(case)


def build_code(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants to know the check-in code of a booked flight."""
    booking = case.booking = case.bookings[0]
    city = booking.flight.destination
    case.wish = (f"Hi, what is the check-in code of my flight to {city}?", f"code {city}")
    case.facts = [("code", booking.code)]


def build_hotel(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants a hotel."""
    booking = case.booking = case.bookings[0]
    city, trap = booking.flight.destination, case.trap
    arrival = local(booking.flight.lands, city).date()
    nights, other_nights = (int(number) for number in rng.permutation([1, 2, 3])[:2])
    breakfast = bool(rng.random() < 0.5) or trap in ("sold out", "limit", "claim")
    if trap == "rule":
        city, case.booking = _unvisited_city(case, rng), None
    hotels = _add_hotels(case, rng, city)
    case.wish = (f"Hi, I need a hotel in {city}.", f"hotel {city}")
    case.places = (city, arrival.isoformat())
    preference = ("I want breakfast in the hotel.", "breakfast") if breakfast else ("I do not need breakfast.", "none")
    case.answers |= {"nights": [_nights_answer(nights)], "breakfast": [preference], "fallback": [KEEP]}
    if trap == "rule":
        return case.refuse(7)
    if trap in ("limit", "claim"):
        for hotel in hotels:
            hotel.price += 12_000 * hotel.breakfast
    if trap == "contradiction":
        both = f"I leave the next morning, and I stay {nights + 1} nights."
        case.answers["nights"].insert(0, (both, f"1 {nights + 1}"))
    if trap == "change":
        case.change_mind("nights", _nights_answer(other_nights))
        nights = other_nights
    days = _days(arrival, nights)
    if trap == "sold out":
        for hotel in hotels:
            hotel.full |= {max(days)} if hotel.breakfast else set()
    choice = _choose_hotel(case, rng, hotels, days, breakfast)
    if choice:
        values = {"hotel": choice.id, "arrival": arrival.isoformat(), "nights": nights}
        case.allow("book_hotel", traveller=case.owner.id, **values)
        case.tell_amount(choice.price * nights)
    return _withdraw_or_refuse(case, 8)


def _choose_hotel(
    case: TravelCase, rng: np.random.Generator, hotels: list[Hotel], days: set[date], breakfast: bool
) -> Hotel | None:
    """The right hotel, after what the employee wants instead; None if there is none."""
    if case.trap == "sold out":
        if rng.random() < LEAVE_IT:
            case.offer(None)
            return None
        case.offer(("Then one without breakfast.", "none"))
        breakfast = False
    choice = fitting_hotels(hotels, days, breakfast=breakfast)[0]
    return choice if choice.price <= MAX_NIGHT_PRICE else None


def _add_hotels(case: TravelCase, rng: np.random.Generator, city: str) -> list[Hotel]:
    """Two hotels with breakfast and two without, of which one of each is always free."""
    prices = rng.permutation([7_950, 8_800, 9_400, 10_250, 11_100, 12_600, 13_900, 14_500])[:4]
    names = rng.permutation(HOTEL_NAMES)[:4]
    hotels = []
    for place, (name, price) in enumerate(zip(names, prices, strict=True)):
        hotels.append(Hotel(case.agency.new_id("H"), str(name), city, int(price), place % 2 == 0))
    for hotel in hotels[:2]:
        if rng.random() < DECOY:
            hotel.full = {NIGHTS[int(rng.integers(len(NIGHTS)))] for _ in range(4)}
    case.agency.hotels += [hotels[place] for place in rng.permutation(4)]
    return hotels


def _choose_flight(case: TravelCase, rng: np.random.Generator, city: str, ticket: str) -> Flight | None:
    """The right flight on the day that the employee wants in the end, or the day instead; None if there is none."""
    agency, owner, trap = case.agency, case.owner, case.trap
    day, other_day = case.free_days(rng)[:2]
    flights, other_flights = (agency.add_flights(rng, owner.office, city, each) for each in (day, other_day))
    window = WINDOWS[int(rng.integers(len(WINDOWS)))]
    case.answers |= {"day": [day_answer(day)], "time": [window.spoken()], "fallback": [KEEP]}
    if trap == "change":
        case.change_mind("day", day_answer(other_day))
        day, flights = other_day, other_flights
    if trap == "contradiction":
        both = "I have to leave before 10:00 my time, but I cannot leave before 12:00."
        case.answers["time"].insert(0, (both, "before 10:00 from 12:00"))
    case.places = (city, day.isoformat())
    in_time = [flight for flight in flights if window.fits(flight)]
    if trap == "sold out":
        for flight in in_time:
            flight.seats = 0
        if rng.random() < LEAVE_IT:
            case.offer(None)
            return None
        case.offer((f"Then on {spoken_day(other_day)}, at the same time of the day.", other_day.isoformat()))
        case.places, flights = (city, day.isoformat(), other_day.isoformat()), other_flights
    fitting = fitting_flights(agency, owner, flights, window)
    _fill_calendar(case, rng, fitting)
    if case.kind == "book" and trap in ("limit", "claim"):
        for flight in in_time:
            flight.price += MAX_FARE - 14_000
        return None
    return fitting_flights(agency, owner, flights, window)[0]


def _fill_calendar(case: TravelCase, rng: np.random.Generator, fitting: list[Flight]) -> None:
    """Let a meeting overlap the cheapest flight that fits: one that counts, or one that the employee declined."""
    agency, owner = case.agency, case.owner
    organiser = next(each for each in agency.travellers if each is not owner)
    cheapest, second, *_ = fitting
    if case.trap == "conflict":
        is_first = cheapest.departs < second.departs
        time = cheapest.departs + timedelta(minutes=15) if is_first else cheapest.lands - timedelta(minutes=45)
        host, guest = (organiser, owner) if rng.random() < 0.5 else (owner, organiser)
        agency.meet(host, guest, time, minutes=30)
    elif rng.random() < DECOY:
        time = cheapest.departs + timedelta(minutes=30)
        agency.meet(organiser, owner, time, answer="declined" if rng.random() < 0.5 else "open")


def _unvisited_city(case: TravelCase, rng: np.random.Generator) -> str:
    """A city to which the employee has no flight."""
    cities = {booking.flight.destination for booking in case.bookings} | {case.owner.office}
    return str(rng.choice([name for name in OFFICES if name not in cities]))


def _leave_soon(flight: Flight, rng: np.random.Generator) -> None:
    """Let a flight leave within the next day."""
    length = flight.lands - flight.departs
    flight.departs = NOW + timedelta(hours=int(rng.integers(5, 22)), minutes=15)
    flight.lands = flight.departs + length


def _withdraw_or_refuse(case: TravelCase, limit_rule: int = 4) -> None:
    if case.trap in ("limit", "claim"):
        case.refuse(limit_rule)
    elif case.trap == "withdraw" or (case.is_blocked and not case.writes):
        case.withdraw()


def _days(arrival: date, nights: int) -> set[date]:
    return {arrival + timedelta(number) for number in range(nights)}


def _nights_answer(nights: int) -> Texts:
    return (f"I stay {nights} {'night' if nights == 1 else 'nights'}.", str(nights))
