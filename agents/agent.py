"""What stands between an environment's messages and a policy's tokens, for one seat of one episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from envs.types import Message


class Context(NamedTuple):
    """Tokens to put before the next reply. `fresh`: they replace the history instead of extending it."""

    ids: tuple[int, ...]
    fresh: bool = False


class Agent(Protocol):
    """One object per seat and episode: called `open`, `act`, `observe`, `act`, `observe`, ...

    A prompt is the previous prompt, the sampled reply and the new context's `ids`; or, if it is `fresh`, `ids` alone.
    """

    @property
    def stop(self) -> tuple[int, ...]:
        """Token ids that end a reply and belong to it."""
        ...

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """The context of the first reply."""
        ...

    def act(self, ids: Sequence[int]) -> Message:
        """The message that a sampled reply means."""
        ...

    def amend(self, message: Message) -> tuple[int, ...]:
        """Put `message` in the place of the reply just acted on; the tokens that stand for it.

        Asked only where an environment says `info["instead"]`: from then on, another reply was given.
        """
        ...

    def observe(self, messages: Sequence[Message]) -> Context:
        """The context that an environment's new messages add after the last reply."""
        ...
