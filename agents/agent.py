"""The protocol of an agent, which converts between an environment's messages and a policy's tokens for one episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agents.images import PlacedImage
from envs.types import Message


class Context(NamedTuple):
    """Tokens to put before the next reply.

    Attributes:
        ids: The tokens.
        fresh: Whether they replace the token history instead of extending it.
        role: What the reply is asked for, such as "summary"; "" for the reply of an agent without roles.
        max_tokens: Most tokens of the reply; None for the limit of the run.
        end: Whether the agent ends the episode instead, truncated with the stop "turn_limit". Only `observe` may say
            so, and `ids` are of no meaning then.
        images: The images that some of the tokens stand for.

    """

    ids: tuple[int, ...]
    fresh: bool = False
    role: str = ""
    max_tokens: int | None = None
    end: bool = False
    images: tuple[PlacedImage, ...] = ()


class Internal(NamedTuple):
    """A reply that stays with the agent: the environment never sees it."""

    message: Message


class Agent(Protocol):
    """The agent of one episode. Its methods are called in the order `open`, `act`, `observe`, `act`, `observe`, ...

    The next prompt is the previous prompt, the sampled reply and the new `Context.ids`; if `fresh`, these `ids` alone.
    After an `Internal` reply `observe` is called at once, without messages. An agent must not ask for such replies
    without end, whatever the policy says.
    """

    @property
    def stop(self) -> tuple[int, ...]:
        """Token ids that end a reply and belong to it."""
        ...

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode with the first `messages`; return the first prompt, which ends where the reply begins.

        It holds the tools (OpenAI function schemas), the messages and the header that precedes a reply.
        """
        ...

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse the token ids of a sampled reply into the environment's message; add that to the dialogue.

        A reply that the agent has asked for itself is returned as `Internal`.
        """
        ...

    def amend(self, message: Message) -> tuple[int, ...]:
        """Replace the last reply of the dialogue by `message`; return the tokens that stand for it in later prompts.

        Called only if the environment answers with `info["instead"]`.
        """
        ...

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add the environment's new messages to the dialogue; return the tokens to put before the next reply."""
        ...

    def demonstrate(self, reply: Message) -> Message:
        """Return the message that a demonstration writes next, if the environment is then to be told `reply`.

        That is `reply` itself, unless the agent has asked for an internal reply. Called before `act`, for episodes of
        an oracle, which are imitated.
        """
        ...
