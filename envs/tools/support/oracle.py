"""Replies that settle every case at the support desk: it asks for what it does not know, as the policy says."""

from __future__ import annotations

from collections.abc import Iterator

from envs.tools.desk.customer import Conversation
from envs.tools.desk.speech import OpenDesk, Speaker
from envs.tools.support.cases import SupportCase
from envs.types import Message

_QUESTIONS = {  # what to ask for after the records of the order were read
    "cancel": "",
    "return": "What is the reason for the return, and should the refund go to your card or to store credit?",
    "exchange": "Which colour would you like, and what would you want instead if it is sold out?",
    "address": "What is the new address, with its postcode?",
    "late": "",
    "track": "",
}
_TOPICS = {"return": "reason refund", "exchange": "colour fallback", "address": "address"}
_SENTENCES = {
    "amount": "It is done. The amount is {}.",
    "tracking": "The tracking code is {}.",
    "rule": "I am sorry, I cannot do that; it is against rule {} of our policy.",
}


def oracle_replies(desk: OpenDesk) -> Iterator[Message]:
    """Yield the replies of an episode, one per turn."""
    case, say = desk.case, Speaker(desk)
    yield say.text("What are your e-mail address, your postcode and your order number?", "ask email postcode order")
    email, postcode = case.answers["email"][0][1], case.answers["postcode"][0][1]
    yield say.call("verify_customer", email=email, postcode=postcode)
    if case.facts != [("rule", "1")]:
        yield from _settle(case, say, desk.memory)
    yield from say.facts(case, _SENTENCES, len(case.facts) - bool(case.second))
    yield say.text("Is there anything else?", "ask else")
    if case.second:
        yield say.call("track_parcel", order=case.second.number)
        yield say.text(_SENTENCES["tracking"].format(case.second.tracking), f"tell {case.second.tracking}")
    yield say.call("close_case", outcome=case.outcome)


def _settle(case: SupportCase, say: Speaker, conversation: Conversation) -> Iterator[Message]:
    """Read the records, ask, ask to confirm, and make the change, unless the policy forbids the wish."""
    number = case.answers["order"][0][1]
    if number == "unknown":
        yield say.call("list_orders", customer=case.owner.id)
        number = case.order.number
    yield say.call("get_order", order=number)
    if case.kind == "track" and case.outcome == "solved":
        yield say.call("track_parcel", order=number)
    if case.outcome == "refused":
        if case.kind == "return":
            yield say.text(_QUESTIONS["return"], "ask reason refund")
        return
    if question := _QUESTIONS[case.kind]:
        yield say.text(question, f"ask {_TOPICS[case.kind]}")
        if case.trap == "contradiction":
            yield say.text("I can refund it only once: to the card or as store credit?", "ask refund")
    if case.kind == "exchange":
        yield say.call("find_items", product=case.item.product)
    while not (conversation.confirmations or conversation.has_withdrawn) and (case.writes or case.withdraws):
        yield say.text(f"For the order {number}: {case.kind}. Do you confirm?", f"confirm {number}")
    if case.writes:
        yield from say.calls(*case.writes)
