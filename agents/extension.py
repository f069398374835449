"""An agent with a budget of turns, which the policy may have extended once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agents.agent import Context, Internal
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from agents.requests import ask
from envs.episodes.guide import count
from envs.types import Message, assistant, final_line, user

ROLE = "extension"
WORD = "more"
REQUEST = {
    "full": "You have used up your {used}. You may have {more} once. If you need them to finish, reply with the word "
    f"{WORD} alone on the last line. Any other reply ends the episode now.",
    "short": f"{WORD}?",
}
GRANT = {"full": "You have {more}.", "short": "{number} left"}


def asks_for_more(message: Message) -> bool:
    """Whether a reply to the agent's question asks for more turns."""
    return final_line(message).strip(" .!`*\"'").lower() == WORD


class ExtensionAgent(ChatAgent):
    """A `ChatAgent` whose episode ends after `turns` turns unless the policy asks for `more`, once.

    A turn is a reply with the messages that answer it. When the budget is used up and the environment goes on, the
    policy is asked whether it needs `more` turns. That reply is internal and is cut at `length` tokens; the word `more`
    on its last line extends the budget. Else, and when the extended budget is used up, the episode is truncated with
    the stop "turn_limit", as if the environment's own limit had been reached, which still holds. So a policy pays for
    turns only where it needs them.

    The two budgets follow the dynamic limit of turn control for agents (a lower limit, extended once to a higher one);
    that the policy itself asks for the extension, instead of a rule, is our choice. Good budgets are percentiles of the
    turns that the same model takes without a limit.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        turns: Turns of the first budget.
        more: Turns of the extension.
        length: Most tokens of the reply that asks for it.

    Raises:
        ValueError: An argument is below 1.

    """

    has_internal_replies = True
    roles = (ROLE,)
    options: ClassVar[Mapping[str, Option]] = {
        "turns": Option("turns of the first budget", is_required=True),
        "more": Option("turns of the extension", is_required=True),
        "length": Option("most tokens of the reply that asks for the extension (default: 256)"),
    }

    def __init__(self, renderer: Renderer, system: str = "", *, turns: int, more: int, length: int = 256) -> None:
        super().__init__(renderer, system)
        if min(turns, more, length) < 1:
            raise ValueError(f"turns, more and length must be at least 1, not {turns}, {more} and {length}")
        self.turns, self.more, self.length = turns, more, length
        self._num_replies, self._budget = 0, turns
        self._is_asking = self._is_granted = False

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode; return the first prompt, as `ChatAgent.open` does."""
        self._num_replies, self._budget = 0, self.turns
        self._is_asking = self._is_granted = False
        return super().open(messages, tools)

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse a reply; one that is asked whether the budget is extended is internal."""
        message = self._read(ids)
        if not self._is_asking:
            return message
        self._is_granted = asks_for_more(message)
        return Internal(message)

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages`; return their tokens, with the question whether more turns are needed where they are used up.

        After the answer, return the tokens that grant them, or the end of the episode.
        """
        if self._is_asking:
            self._is_asking = False
            if not self._is_granted:
                return Context((), end=True)
            self._budget += self.more
            grant = GRANT[self.style].format(more=count(self.more, "more turn"), number=self.more)
            return super().observe([user(grant)])
        self._num_replies += 1
        if self._num_replies < self._budget:
            return super().observe(messages)
        if self._is_granted:
            return Context((), end=True)
        self._is_asking = True
        request = REQUEST[self.style].format(used=count(self.turns, "turn"), more=count(self.more, "more turn"))
        context = super().observe(ask(messages, request, self.renderer))
        return context._replace(role=ROLE, max_tokens=self.length)

    def demonstrate(self, reply: Message) -> Message:
        """Return `reply`, or the request for more turns where the policy is asked."""
        return assistant(WORD) if self._is_asking else reply
