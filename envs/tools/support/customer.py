"""The customer at the support desk: answers what is asked for, confirms, or changes the wish."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from envs.tools.support.cases import Answers, Case

MAX_TOPICS = 3  # that one message of the desk may ask about; the customer leaves out further ones
MAX_MESSAGE = 1_000  # characters of a message that the customer reads
MAX_VALUES = 4  # different values of a kind that the messages of an episode may name, or the fact does not count
_TOPICS: Mapping[str, re.Pattern[str]] = {
    "email": re.compile(r"\be-?mail", re.I),
    "postcode": re.compile(r"\b(?:post ?code|zip|postal code)", re.I),
    "order": re.compile(r"\border (?:number|no\b|id\b)|\bwhich order|\bnumber of (?:the|your) order", re.I),
    "item": re.compile(r"\b(?:which|what) (?:item|product|article|goods)", re.I),
    "reason": re.compile(r"\b(?:reason|why|damaged|broken|fault\w*|defect\w*)\b|\bwrong with", re.I),
    "refund": re.compile(r"\b(?:card|store credit|refund method|paid back|money back)\b", re.I),
    "colour": re.compile(r"\b(?:which|what|wanted|desired|new) colou?r", re.I),
    "fallback": re.compile(r"\bsold out|\bout of stock|\binstead|\balternativ", re.I),
    "address": re.compile(r"\b(?:new|which|what|full|exact|delivery|shipping) (?:delivery |shipping )?address", re.I),
    "else": re.compile(r"\b(?:any|some)thing else|\belse I can|\bother (?:wish|question|request)", re.I),
}
# Lower-case words of which a message that a pattern fits has one: looking for them is far cheaper than the search.
_HINTS: Mapping[str, tuple[str, ...]] = {
    "email": ("mail",),
    "postcode": ("code", "zip"),
    "order": ("order",),
    "item": ("item", "product", "article", "goods"),
    "reason": ("reason", "why", "damaged", "broken", "fault", "defect", "wrong"),
    "refund": ("card", "credit", "refund", "paid", "money"),
    "colour": ("colo",),
    "fallback": ("sold", "stock", "instead", "alternativ"),
    "address": ("address",),
    "else": ("else", "other"),
    "amount": (".",),
    "tracking": ("tr",),
    "rule": ("rule",),
}
_CONFIRM = re.compile(r"\bconfirm", re.I)
_ORDER = re.compile(r"\bO\d{4}\b")
_VALUES: Mapping[str, re.Pattern[str]] = {
    "amount": re.compile(r"(?<![\d.,])\d{1,6}\.\d\d(?!\d|\.\d)"),
    "tracking": re.compile(r"\bTR\d{6}\b"),
    "rule": re.compile(r"\brule (?:no\. |number )?([1-9]\d?)\b", re.I),
}


@dataclass
class Conversation:
    """What has passed between the desk and the customer.

    Attributes:
        questions: How many times each topic was asked about.
        confirmations: The numbers of the orders for which the customer has confirmed the change.
        has_changed: Whether the customer has made the change of mind, if there is one.
        has_withdrawn: Whether the customer has taken the wish back.
        values: The values of each kind that the desk has told the customer, in order.
    """

    questions: dict[str, int] = field(default_factory=dict)
    confirmations: list[str] = field(default_factory=list)
    has_changed: bool = False
    has_withdrawn: bool = False
    values: dict[str, list[str]] = field(default_factory=dict)

    def knows(self, kind: str, value: str) -> bool:
        """Whether the customer was told a value, and not so many of its kind that it could be a guess."""
        values = self.values.get(kind, [])
        return value in values and len(values) <= MAX_VALUES


class RuleCustomer:
    """A customer who follows rules.

    Args:
        case: What the customer wants and knows.
        is_short: Whether to speak in short style: bare values, topics by their names, `confirm O1234`.
    """

    def __init__(self, case: Case, *, is_short: bool) -> None:
        self._case, self._is_short = case, is_short

    def answer(self, message: str, conversation: Conversation) -> str:
        """Return what the customer says to a message of the desk, and record in `conversation` what has passed."""
        message = message[:MAX_MESSAGE]
        self._listen(message, conversation)
        parts = [self._answer_topic(topic, conversation) for topic in self._topics(message)]
        if "confirm" in message.lower() and _CONFIRM.search(message):
            parts.append(self._confirm(_ORDER.findall(message), conversation))
        if parts:
            return " ".join(parts)
        if "?" in message:
            return "?" if self._is_short else "Sorry, I do not know what you mean. What do you need from me?"
        return "ok" if self._is_short else "All right."

    def _listen(self, message: str, conversation: Conversation) -> None:
        lower = message.lower()
        for kind, pattern in _VALUES.items():
            if _has_hint(kind, lower) and (matches := pattern.findall(message)):
                conversation.values[kind] = list(dict.fromkeys([*conversation.values.get(kind, []), *matches]))

    def _topics(self, message: str) -> list[str]:
        if self._is_short:
            words = message.split()
            return [topic for topic in _TOPICS if words[:1] == ["ask"] and topic in words][:MAX_TOPICS]
        if "?" not in message and not re.search(r"\b(?:please|tell me|need)\b", message, re.I):
            return []
        lower = message.lower()
        topics = [topic for topic, pattern in _TOPICS.items() if _has_hint(topic, lower) and pattern.search(message)]
        return topics[:MAX_TOPICS]

    def _answer_topic(self, topic: str, conversation: Conversation) -> str:
        time = conversation.questions.get(topic, 0)
        conversation.questions[topic] = time + 1
        if topic == "else":
            return self._pick(self._second_wish())
        if topic == "fallback" and self._case.withdraws:
            conversation.has_withdrawn = True
        texts = self._answers(conversation).get(topic) or [(f"I have nothing to say about the {topic}.", "none")]
        return self._pick(texts[min(time, len(texts) - 1)])

    def _answers(self, conversation: Conversation) -> Answers:
        case = self._case
        return {**case.answers, **case.change_answers} if conversation.has_changed else case.answers

    def _second_wish(self) -> tuple[str, str]:
        if self._case.second is None:
            return ("No, that is all. Thank you.", "no")
        number = self._case.second.number
        return (f"Yes: what is the tracking code of my order {number}?", f"track {number}")

    def _confirm(self, orders: list[str], conversation: Conversation) -> str:
        case = self._case
        if not orders:
            return self._pick(("Which order is that about? Please name its number and the change.", "order?"))
        if case.withdraws:
            conversation.has_withdrawn = True
            return self._pick(("No, I changed my mind. Please leave everything as it is.", "no keep"))
        if case.change and not conversation.has_changed:
            conversation.has_changed = True
            return self._pick(case.change)
        conversation.confirmations = list(dict.fromkeys([*conversation.confirmations, *orders]))[:MAX_VALUES]
        return self._pick(("Yes, please do that.", "yes"))

    def _pick(self, texts: tuple[str, str]) -> str:
        return texts[self._is_short]


def _has_hint(kind: str, lower: str) -> bool:
    for hint in _HINTS[kind]:  # noqa: SIM110 (a generator takes longer)
        if hint in lower:
            return True
    return False
