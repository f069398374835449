"""Another program in the customer's seat, such as a language model behind an endpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envs.adapters.named_function import load_function
from envs.tools.desk.case import Case
from envs.tools.desk.customer import MAX_MESSAGE, Conversation, RuleCustomer, Vocabulary, is_confirmation
from envs.types import Message, assistant, user

Seat = Callable[[Mapping[str, Any], Sequence[Message]], str]  # scenario, conversation -> next message of the customer
_YES = re.compile(
    r"\W*(?:yes|yeah|yep|sure|ok(?:ay)?|correct|agreed|go ahead|please (?:do|go)|i confirm|confirmed)\b", re.I
)


class ProgramCustomer(RuleCustomer):
    """A customer whose messages a function writes.

    The function gets `Case.scenario()` and the conversation, in which the desk is the assistant, and returns the
    customer's next message. Of its messages only one thing is read: whether an answer to a request to confirm begins
    with a yes. If not, and the case says so, the customer has taken the wish back.

    Args:
        case: What the customer wants and knows.
        vocabulary: The words that tell what the desk asks about.
        name: `module:function` or `path.py:function`.
    """

    def __init__(self, case: Case, vocabulary: Vocabulary, name: str) -> None:
        super().__init__(case, vocabulary, is_short=False)
        self._name = name
        self._seat: Seat | None = None

    def answer(self, message: str, conversation: Conversation) -> str:
        """Return what the customer says to a message of the desk, and record in `conversation` what has passed.

        Raises RuntimeError if the function returns something else than a text.
        """
        message = message[:MAX_MESSAGE]
        conversation.listen(message, self._vocabulary)
        topics = self.topics(message)
        for topic in topics:
            conversation.questions[topic] = conversation.questions.get(topic, 0) + 1
        conversation.messages.append(assistant(message))
        answer = self._speak(conversation.messages)
        conversation.messages.append(user(answer))
        numbers = self._vocabulary.numbers.findall(message) if is_confirmation(message) else []
        if numbers and _YES.match(answer):
            conversation.confirm(numbers)
        elif self._case.withdraws and (numbers or "fallback" in topics):
            conversation.has_withdrawn = True
        return answer

    def _speak(self, messages: Sequence[Message]) -> str:
        if self._seat is None:
            self._seat = load_function(self._name)
        conversation = (user(self._case.wish[0]), *messages)
        answer = self._seat(self._case.scenario(), conversation)
        if not isinstance(answer, str):
            raise RuntimeError(f"the customer {self._name!r} returned a {type(answer).__name__}, not a text")
        return answer.strip()[:MAX_MESSAGE]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_seat": None}  # a function of a file cannot be pickled; it is loaded again
