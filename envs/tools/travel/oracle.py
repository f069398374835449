"""Replies that settle every case at the travel desk: it asks for what it does not know, as the policy says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envs.tools.desk.speech import OpenDesk, Speaker
from envs.tools.travel.travel_case import TravelCase
from envs.types import Message

_QUESTIONS: dict[str, tuple[tuple[str, str], ...]] = {  # what to ask for, by the kind of the case
    "book": (
        ("On which day and at what time do you want to leave, and with a saver or a flex ticket?", "day time ticket"),
    ),
    "change": (("What is the new day, and at what time do you want to leave?", "day time"),),
    "cancel": (("What is the reason?", "reason"),),
    "hotel": (("How many nights do you stay, and do you want breakfast?", "nights breakfast"),),
    "meeting": (
        ("What is the full name of the colleague, on which day and at what time is the meeting?", "colleague day time"),
        ("How long should it last, and what is the title?", "length title"),
    ),
    "move": (("What is the new day, and the new time?", "day time"),),
    "invitation": (("Shall I accept or decline it?", "answer"),),
}
_AGAIN = {
    "book": ("At what time can you leave?", "time"),
    "change": ("At what time can you leave?", "time"),
    "hotel": ("How many nights is it?", "nights"),
    "meeting": ("At what time?", "time"),
    "move": ("At what time?", "time"),
    "invitation": ("Shall I accept it?", "answer"),
}
_SENTENCES = {
    "amount": "It is done. The amount is {}.",
    "code": "The check-in code is {}.",
    "time": "It starts at {}.",
    "rule": "I am sorry, I cannot do that; it is against rule {} of our policy.",
}


def oracle_replies(desk: OpenDesk) -> Iterator[Message]:
    """Yield the replies of an episode, one per turn."""
    case, say = desk.case, Speaker(desk)
    yield say.text("What are your e-mail address, your badge and your booking number?", "ask email badge booking")
    email, badge = case.answers["email"][0][1], case.answers["badge"][0][1]
    yield say.call("verify_traveller", email=email, badge=badge)
    if case.facts != [("rule", "1")]:
        yield from _look_up(case, say)
        if case.outcome != "refused" or case.facts[0][1] not in ("2", "3"):
            yield from _ask(case, say)
        yield from _change(case, say, desk.memory)
    yield from say.facts(case, _SENTENCES, len(case.facts) - bool(case.second))
    yield say.text("Is there anything else?", "ask else")
    if case.second:
        yield say.call("get_booking", booking=case.second.id)
        yield say.text(_SENTENCES["code"].format(case.second.code), f"tell {case.second.code}")
    yield say.call("close_case", outcome=case.outcome)


def _look_up(case: TravelCase, say: Speaker) -> Iterator[Message]:
    """Read the records of what the wish is about."""
    if case.booking:
        if case.answers["booking"][0][1] == "unknown":
            yield say.call("list_bookings", traveller=case.owner.id)
        yield say.call("get_booking", booking=case.booking.id)
    elif case.kind == "hotel":
        yield say.call("list_bookings", traveller=case.owner.id)
    if case.meeting:
        yield say.call("get_calendar", traveller=case.owner.id)


def _ask(case: TravelCase, say: Speaker) -> Iterator[Message]:
    """Ask what only the employee knows, and look up what fits."""
    for question, topics in _QUESTIONS.get(case.kind, ()):
        yield say.text(question, f"ask {topics}")
    if case.trap == "contradiction":
        question, topics = _AGAIN[case.kind]
        yield say.text(f"That contradicts itself. {question}", f"ask {topics}")
    if case.outcome == "refused" and case.kind not in ("book", "hotel"):
        return
    if case.guest:
        yield say.call("find_colleague", name=case.guest.name if case.kind == "meeting" else case.guest.id)
        people = [case.guest] if case.meeting else [case.owner, case.guest]
        yield from say.calls(*(("get_calendar", {"traveller": each.id}) for each in people))
    city, *days = case.places or ("",)
    if case.kind in ("book", "change"):
        yield say.call("get_calendar", traveller=case.owner.id)
        route = {"origin": case.owner.office, "destination": city}
        yield from say.calls(*(("find_flights", {**route, "day": day}) for day in days))
    elif case.kind == "hotel" and case.booking:
        yield say.call("find_hotels", city=city, arrival=days[0], nights=3)
    if case.is_blocked:
        yield say.text("That is not possible. What would you like instead?", "ask fallback")


def _change(case: TravelCase, say: Speaker, conversation: Any) -> Iterator[Message]:
    """Ask to confirm, and make the change."""
    numbers = " ".join(case.subject)
    while not (conversation.confirmations or conversation.has_withdrawn) and (case.writes or case.withdraws):
        yield say.text(f"It is about {numbers}: {case.kind}. Do you confirm?", f"confirm {numbers}")
    if case.writes:
        yield from say.calls(*case.writes)
