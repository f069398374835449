"""Policies that speak in messages and not in tokens: a model behind an API, stored replies, a human.

`rl.rollout.episode` plays them like any other policy: each whole message is one token of a vocabulary that grows as the
episodes do. So seeds, deadlines, faults and test-time strategies mean the same for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

import gymnasium

from agents.agent import Context
from envs.types import Message
from rl.cli import UserError
from rl.evaluate.runner import Ended, evaluate
from rl.records import Completion, Finish, Group, SamplingParams, Ticket
from rl.rollout.runner import Player
from rl.rollout.watchdog import Watchdog


class Asked(NamedTuple):
    """A dialogue in which the speaker is to reply. `session` is `"TICKET/MEMBER"`, as in `rl.rollout.episode.episode`."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    params: SamplingParams  # `seed` is this reply's own
    session: str


@dataclass(frozen=True, slots=True)
class Said:
    """A reply, the tokens sampled for it, and how many the whole dialogue has with it; 0 where nobody counts."""

    message: Message
    finish: Finish = "stop"
    tokens: int = 0
    context: int = 0


class Speaker(Protocol):
    """Messages in, one message out."""

    async def say(self, asked: Asked) -> Said:
        """Reply. Raises `CutOff` to truncate the episode, `Halt` to end the evaluation; other exceptions are faults."""
        ...

    def release(self, session: str) -> None:
        """Forget an episode that ended."""
        ...


class Halt(BaseException):
    """Nothing more will be said, in no episode; the text says why. No `Exception`, so that no episode takes it for one.

    `refused` says that it never can be said; otherwise what was played until then stands.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Unfinished(Exception):
    """An evaluation that ended early; the text says why. `groups` are the tickets that were played to their end."""

    def __init__(self, why: str, groups: list[Group]) -> None:
        super().__init__(why)
        self.groups = groups


class Lexicon:
    """Numbers for messages and lists of tools: the number of an entry is its token."""

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def add(self, entry: Any) -> int:
        """The token of a new entry."""
        self._entries.append(entry)
        return len(self._entries) - 1

    def __getitem__(self, token: int) -> Any:
        return self._entries[token]


class MessageAgent:
    """The agent of a speaker: it passes messages on."""

    stop: tuple[int, ...] = ()

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """The tools and the opening messages."""
        return Context((self.lexicon.add(tuple(tools)), *map(self.lexicon.add, messages)))

    def act(self, ids: Sequence[int]) -> Message:
        """The message that was said."""
        return self.lexicon[ids[0]]

    def amend(self, message: Message) -> tuple[int, ...]:
        """The token of `message`."""
        return (self.lexicon.add(message),)

    def observe(self, messages: Sequence[Message]) -> Context:
        """The new messages."""
        return Context(tuple(map(self.lexicon.add, messages)))


class SpeakingPolicy:
    """A speaker as a `Policy`: one token per message."""

    version = 0

    def __init__(self, speaker: Speaker) -> None:
        self.speaker = speaker
        self.lexicon = Lexicon()

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", received: Completion | None = None
    ) -> Completion:
        """Let the speaker reply to the messages of `prompt`. A message comes whole, so none is ever `received`."""
        tools, *messages = (self.lexicon[token] for token in prompt)
        said = await self.speaker.say(Asked(messages, tools, params, session))
        return Completion((self.lexicon.add(said.message),), (0.0,), (0.0,), (0,), said.finish, said.tokens)

    def release(self, session: str) -> None:
        """Forget an episode that ended."""
        self.speaker.release(session)


async def converse(
    make_env: Callable[[], gymnasium.Env],
    speaker: Speaker,
    params: SamplingParams,
    tickets: Sequence[Ticket],
    *,
    at_once: int = 1,
    watchdog: Watchdog | None = None,
    ended: Ended = lambda group: None,
) -> list[Group]:
    """Like `rl.evaluate.runner.evaluate`, for a speaker. An episode has no time limit but its environment's own.

    Raises `UserError` where the speaker refuses, and `Unfinished` where it falls silent before the end.
    """
    policy = SpeakingPolicy(speaker)
    # The episode's bound counts messages here; bounds on tokens are for the speaker to keep.
    player = Player(make_env, lambda: MessageAgent(policy.lexicon), policy, params, sys.maxsize, episode_s=inf)
    player.watchdog = watchdog or player.watchdog
    whole: list[Group] = []

    def played(group: Group) -> None:
        whole.append(group)
        ended(group)

    try:
        return await evaluate(player, tickets, at_once=at_once, ended=played)
    except BaseExceptionGroup as several:
        halts = _halts(several)
        if not halts:
            raise
    finally:
        player.close()
    for halt in halts:
        if halt.refused:
            raise UserError(str(halt))
    raise Unfinished(str(halts[0]), sorted(whole, key=lambda group: group.ticket.number))


def _halts(several: BaseExceptionGroup) -> list[Halt]:
    """The halts among exceptions that were raised together."""
    found: list[Halt] = []
    for error in several.exceptions:
        if isinstance(error, BaseExceptionGroup):
            found += _halts(error)
        elif isinstance(error, Halt):
            found.append(error)
    return found
