"""Cases about calendars: schedule a meeting, move one, answer an invitation."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from envs.tools.desk.case import Texts
from envs.tools.travel.agency import Meeting, Traveller
from envs.tools.travel.times import clock, format_time, local
from envs.tools.travel.travel_case import KEEP, MAX_MINUTES, TravelCase, day_answer, work_hours

LENGTHS, LONG = (30, 45, 60, 90), 120  # minutes; a long meeting is against the policy
LEAVE_IT, DECLINE = 0.3, 0.35  # shares of cases


def build_meeting(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants to meet one of two colleagues with the same first name."""
    agency, owner, trap = case.agency, case.owner, case.trap
    guest = case.guest = agency.travellers[-1 - int(rng.integers(2))]
    minutes = LONG if trap in ("rule", "claim") else int(rng.choice(LENGTHS))
    title = agency.titles.pop()
    case.wish = (f"Hello, please set up a meeting for me with {guest.first_name}.", f"meet {guest.first_name}")
    case.answers |= {
        "colleague": [(f"With {guest.name} in {guest.office}.", guest.name)],
        "length": [(f"It should last {minutes} minutes.", str(minutes))],
        "title": [(f'Call it "{title}".', title)],
    }
    start = _choose_time(case, rng, guest, minutes)
    if trap in ("rule", "claim"):
        return case.refuse(9)
    if start:
        values = {"start": format_time(start), "minutes": minutes, "title": title}
        case.allow("schedule_meeting", organiser=owner.id, guest=guest.id, **values)
        case.facts = [("time", clock(start, guest.office))]
    case.subject = (guest.id,)
    return _withdraw_if_wanted(case)


def build_move(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants another time for a meeting, that somebody else organises in the cases with trap `rule`."""
    agency, owner = case.agency, case.owner
    colleague = case.guest = agency.travellers[-1 - int(rng.integers(2))]
    host, other = (colleague, owner) if case.trap in ("rule", "claim") else (owner, colleague)
    meeting = case.meeting = agency.meet(host, other, _free_times(case, rng, colleague, 60)[0])
    case.wish = (f'Hi, I have to move the meeting "{meeting.title}".', f"move {meeting.title}")
    case.subject = (meeting.id,)
    start = _choose_time(case, rng, colleague, meeting.minutes)
    if case.trap in ("rule", "claim"):
        return case.refuse(10)
    if start:
        case.allow("move_meeting", meeting=meeting.id, start=format_time(start))
        case.facts = [("time", clock(start, colleague.office))]
    return _withdraw_if_wanted(case)


def build_invitation(case: TravelCase, rng: np.random.Generator) -> None:
    """The employee wants to answer an invitation, which in some cases overlaps something else."""
    agency, owner, trap = case.agency, case.owner, case.trap
    organiser, other = agency.travellers[-1], agency.travellers[-2]
    time, _ = _free_times(case, rng, organiser, 60)
    meeting = case.meeting = agency.meet(organiser, owner, time, answer="open")
    case.wish = (f'Hello, please answer the invitation to "{meeting.title}" for me.', f"invitation {meeting.title}")
    case.subject = (meeting.id,)
    accepts = trap in ("rule", "claim", "conflict", "contradiction") or bool(rng.random() > DECLINE)
    case.answers |= {"answer": [_invitation_answer(accepts)], "fallback": [KEEP]}
    if trap in ("rule", "claim"):
        _block(case, rng, meeting, other)
        return case.refuse(11)
    if trap == "contradiction":
        case.answers["answer"].insert(0, ("Accept it, but tell them that I will not come.", "accepted declined"))
    if trap == "change":
        accepts = not accepts
        case.change_mind("answer", _invitation_answer(accepts))
    if trap == "conflict":
        rival = agency.meet(other, owner, meeting.start + timedelta(minutes=30))
        if rng.random() < 0.5:
            case.offer((f'Then I would rather go to "{meeting.title}".', meeting.title))
            case.allow("answer_invitation", meeting=rival.id, traveller=owner.id, answer="declined")
        else:
            case.offer((f'Then I would rather go to "{rival.title}" and decline the other one.', rival.title))
            accepts = False
    answer = "accepted" if accepts else "declined"
    case.allow("answer_invitation", meeting=meeting.id, traveller=owner.id, answer=answer)
    if accepts:
        case.facts = [("time", clock(meeting.start, owner.office))]
    return _withdraw_if_wanted(case)


def _choose_time(case: TravelCase, rng: np.random.Generator, guest: Traveller, minutes: int) -> datetime | None:
    """The right time for a meeting, after what the employee wants instead; None if there is none."""
    agency, owner, trap = case.agency, case.owner, case.trap
    start, other_start = _free_times(case, rng, guest, min(minutes, MAX_MINUTES))
    if trap == "hours":
        start = _odd_hour(rng, owner, guest, start, minutes)
    case.answers |= {"day": [day_answer(start.date())], "time": [_time_answer(start, owner)], "fallback": [KEEP]}
    if trap == "conflict":
        busy = guest if rng.random() < 0.6 else owner
        third = next(each for each in agency.travellers if each not in (owner, guest))
        host, other = (third, busy) if rng.random() < 0.5 else (busy, third)
        agency.meet(host, other, start - timedelta(minutes=30), minutes=45)
    elif trap == "none" and rng.random() < 0.5:
        agency.meet(agency.travellers[0 if owner is not agency.travellers[0] else 1], guest, start, answer="declined")
    if trap == "change":
        case.change_mind("time", _time_answer(other_start, owner))
        return other_start
    if trap == "contradiction":
        first, second = (f"{local(time, owner.office):%H:%M}" for time in (start, other_start))
        both = f"At {first} my time, and at {second} too, but it is one meeting only."
        case.answers["time"].insert(0, (both, f"{first} {second}"))
    if trap in ("conflict", "hours"):
        if rng.random() < LEAVE_IT:
            case.offer(None)
            return None
        full, short = _time_answer(other_start, owner)
        case.offer((f"Then on the same day. {full}", short))
        return other_start
    return start


def _free_times(
    case: TravelCase, rng: np.random.Generator, guest: Traveller, minutes: int
) -> tuple[datetime, datetime]:
    """Two times on a day on which the employee has no meeting, two hours apart or more, at which both can meet."""
    for day in case.free_days(rng):
        times = []
        for hour in work_hours(case.owner, guest, minutes):
            start = datetime(day.year, day.month, day.day, hour)
            if not case.agency.is_busy(guest, start, start + timedelta(minutes=minutes)):
                times.append(start)
        pairs = [(first, second) for first in times for second in times if abs(first - second) >= timedelta(hours=2)]
        if pairs:
            return pairs[int(rng.integers(len(pairs)))]
    raise LookupError("the calendars leave no day for a meeting")


def _odd_hour(rng: np.random.Generator, owner: Traveller, guest: Traveller, time: datetime, minutes: int) -> datetime:
    """A time on the same day at which a meeting is within the working hours of the employee, not of the colleague."""
    common_hours = work_hours(owner, guest, minutes)
    hours = [hour for hour in work_hours(owner, owner, minutes) if hour not in common_hours]
    return time.replace(hour=int(rng.choice(hours)))


def _block(case: TravelCase, rng: np.random.Generator, meeting: Meeting, other: Traveller) -> None:
    """Let the employee organise a meeting, or have a flight, at the time of a meeting."""
    agency, owner = case.agency, case.owner
    if rng.random() < 0.5:
        agency.meet(owner, other, meeting.start - timedelta(minutes=30), minutes=45)
        return
    flight = case.bookings[1].flight
    length = flight.lands - flight.departs
    flight.departs = meeting.start - timedelta(minutes=15)
    flight.lands = flight.departs + length


def _time_answer(start: datetime, owner: Traveller) -> Texts:
    time = f"{local(start, owner.office):%H:%M}"
    return (f"At {time} my time.", time)


def _invitation_answer(accepts: bool) -> Texts:
    return ("I would like to come, please accept it.", "accepted") if accepts else ("I cannot come.", "declined")


def _withdraw_if_wanted(case: TravelCase) -> None:
    if case.trap == "withdraw" or (case.is_blocked and not case.writes):
        case.withdraw()
