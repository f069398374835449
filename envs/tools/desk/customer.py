"""The customer at a desk: answers what is asked for, confirms, or changes the wish."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from envs.tools.desk.case import Answers, Case, Texts
from envs.types import Message

MAX_TOPICS = 3  # that one message of the desk may ask about; the customer leaves out further ones
MAX_MESSAGE = 1_000  # characters of a message that the customer reads
MAX_VALUES = 4  # different values of a kind that the messages of an episode may name, or the fact does not count
_CONFIRM = re.compile(r"\bconfirm", re.I)
_STATED = re.compile(r"\b(?:i|we)(?:['’]ve| have| can| am| are)? confirm(?:ed)?\b|\b(?:is|was|been) confirmed\b", re.I)
_REQUEST = re.compile(  # a sentence without a question mark that asks for something
    r"\?|\b(?:please|kindly|need|require|provide|specify|could you|can you|would you|may i|"
    r"(?:tell|give|send|show|share with) (?:me|us)|let (?:me|us) (?:know|have)|(?:like|have|want) to (?:know|ask)|"
    r"ask(?:ing)? (?:you )?for|what(?: is|['’]s) your)\b",
    re.I,
)
_DEMAND = re.compile(r"\?|\b(?:tell|give|send|show) (?:me|us)\b|\blet (?:me|us) know\b", re.I)


class Cue(NamedTuple):
    """What a message says or asks about.

    Attributes:
        pattern: Fits such a message; its matches are the values that the message names.
        hints: Lower-case words of which a message that the pattern fits has one: looking for them is far cheaper.
        limit: Different values that the messages of an episode may name, or none of them counts.
    """

    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    limit: int = MAX_VALUES


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words of a domain that the customer understands.

    Attributes:
        topics: What can be asked about.
        values: Kinds of facts that the customer can be told.
        numbers: Pattern of the numbers of things, such as orders, that a request to confirm is about.
        unclear: What the customer says to a request to confirm that names no number, or more than `MAX_VALUES`.
        unasked: What a customer says about a topic that the wish has nothing to do with.
    """

    topics: Mapping[str, Cue]
    values: Mapping[str, Cue]
    numbers: re.Pattern[str]
    unclear: Texts
    unasked: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Conversation:
    """What has passed between the desk and the customer.

    Attributes:
        questions: How many times each topic was asked about.
        confirmations: The numbers of the things for which the customer has confirmed the change, the latest ones.
        has_changed: Whether the customer has made the change of mind, if there is one.
        has_withdrawn: Whether the customer has taken the wish back.
        values: The values of each kind that the desk has told the customer, in order.
        messages: The messages themselves, if another program is the customer.
    """

    questions: dict[str, int] = field(default_factory=dict)
    confirmations: list[str] = field(default_factory=list)
    has_changed: bool = False
    has_withdrawn: bool = False
    values: dict[str, list[str]] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)

    def knows(self, kind: str, value: str, limit: int = MAX_VALUES) -> bool:
        """Whether the customer was told a value, and not so many of its kind that it could be a guess.

        Values of several words, `14:00 in Vienna`, are of one kind if they differ in the first word only.
        """
        values = self.values.get(kind, [])
        rest = value.partition(" ")[2]
        return value in values and sum(each.partition(" ")[2] == rest for each in values) <= limit

    def listen(self, message: str, vocabulary: Vocabulary) -> None:
        """Record the values that a message of the desk names."""
        for kind, cue in _likely_cues(vocabulary.values, message.lower()):
            if matches := cue.pattern.findall(message):
                self.values[kind] = list(dict.fromkeys([*self.values.get(kind, []), *matches]))

    def confirm(self, numbers: list[str]) -> None:
        """Record that the customer has agreed to a change of the things with these numbers."""
        earlier = [number for number in self.confirmations if number not in numbers]
        self.confirmations = [*earlier, *dict.fromkeys(numbers)][-MAX_VALUES:]


class RuleCustomer:
    """A customer who follows rules.

    Args:
        case: What the customer wants and knows.
        vocabulary: The words that the customer understands.
        is_short: Whether to speak in short style: bare values, topics by their names, `confirm O1234`.
    """

    def __init__(self, case: Case, vocabulary: Vocabulary, *, is_short: bool) -> None:
        self._case, self._vocabulary, self._is_short = case, vocabulary, is_short

    def answer(self, message: str, conversation: Conversation) -> str:
        """Return what the customer says to a message of the desk, and record in `conversation` what has passed."""
        message = message[:MAX_MESSAGE]
        conversation.listen(message, self._vocabulary)
        topics = self.topics(message)
        numbers: list[str] | None = self._vocabulary.numbers.findall(message)
        if not self._asks_to_confirm(message, has_subject=bool(numbers) or not topics):
            numbers = None
        if numbers or "fallback" in topics:  # such a message repeats what was said, it does not ask for it again
            topics = [topic for topic in topics if topic == "fallback" or topic not in conversation.questions]
        parts = [self._answer_topic(topic, conversation) for topic in topics]
        if self._case.remark and not self._is_short and self._case.answers.keys() & topics:
            parts.append(self._case.remark)
        if numbers is not None:
            parts.append(self._confirm(numbers, conversation))
        if parts:
            return " ".join(parts)
        if "?" in message or (not self._is_short and _DEMAND.search(message)):
            return "?" if self._is_short else "Sorry, I do not know what you mean. What do you need from me?"
        return "ok" if self._is_short else "All right."

    def topics(self, message: str) -> list[str]:
        """Return what a message asks about, `MAX_TOPICS` topics at most."""
        topics = self._vocabulary.topics
        if self._is_short:
            words = message.split()
            return [topic for topic in topics if words[:1] == ["ask"] and topic in words][:MAX_TOPICS]
        if not _REQUEST.search(message):
            return []
        names = [topic for topic, cue in _likely_cues(topics, message.lower()) if cue.pattern.search(message)]
        relevant = [topic for topic in names if topic in self._case.answers or topic == "else"]
        return (relevant or names)[:MAX_TOPICS]

    def _answer_topic(self, topic: str, conversation: Conversation) -> str:
        time = conversation.questions.get(topic, 0)
        conversation.questions[topic] = time + 1
        if topic == "else":
            second = None if time and self._knows_all(conversation) else self._case.second_wish
            return self._pick(second or ("No, that is all. Thank you.", "no"))
        if topic == "fallback" and self._case.withdraws:
            conversation.has_withdrawn = True
        unasked = self._vocabulary.unasked.get(topic, f"I have nothing to say about the {topic}.")
        texts = self._answers(conversation).get(topic) or [(unasked, "none")]
        return self._pick(texts[min(time, len(texts) - 1)])

    def _answers(self, conversation: Conversation) -> Answers:
        case = self._case
        return {**case.answers, **case.change_answers} if conversation.has_changed else case.answers

    def _knows_all(self, conversation: Conversation) -> bool:
        """Whether the customer was told all that there is to tell."""
        limits = self._vocabulary.values
        facts = self._case.facts
        return not self._is_short and all(conversation.knows(kind, value, limits[kind].limit) for kind, value in facts)

    def _asks_to_confirm(self, message: str, *, has_subject: bool) -> bool:
        """Whether a message asks for a yes: not "could you confirm your e-mail address", nor "I confirm that"."""
        if not is_confirmation(message):
            return False
        return self._is_short or (has_subject and ("?" in message or not _STATED.search(message)))

    def _confirm(self, numbers: list[str], conversation: Conversation) -> str:
        case = self._case
        if not 0 < len(set(numbers)) <= MAX_VALUES:
            return self._pick(self._vocabulary.unclear)
        if case.withdraws:
            conversation.has_withdrawn = True
            return self._pick(("No, I changed my mind. Please leave everything as it is.", "no keep"))
        if case.change and not conversation.has_changed:
            conversation.has_changed = True
            return self._pick(case.change)
        conversation.confirm(numbers)
        return self._pick(("Yes, please do that.", "yes"))

    def _pick(self, texts: Texts) -> str:
        return texts[self._is_short]


def _likely_cues(cues: Mapping[str, Cue], lower: str) -> list[tuple[str, Cue]]:
    """The cues of which a message, in lower case, has a hint."""
    likely = []
    for name, cue in cues.items():
        for hint in cue.hints:
            if hint in lower:
                likely.append((name, cue))
                break
    return likely


def is_confirmation(message: str) -> bool:
    """Whether a message of the desk asks to confirm something."""
    return "confirm" in message.lower() and _CONFIRM.search(message) is not None
