"""Sequential revision: the policy reads its own attempt and makes another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np

from envs.spaces import MessagesSpace, ReplySpace
from envs.types import Message, Messages, text, user
from rl.evaluate.attempts import Choice, settled
from rl.evaluate.strategies.selection import powers
from rl.evaluate.strategies.strategy import Attempt, MakeEnv, Stage, mean_logprob
from rl.evaluate.voting import Vote
from rl.methods.options import Count
from rl.records import Ticket, Trajectory
from rl.seeds import derive

ROUND = "revise"
CHECK = "Check your answer, then answer again."
AGAIN = "Try again from the start."
WRONG = "That was wrong. "


@dataclass(frozen=True, slots=True)
class Revision:
    """A task to be played again, after `history`, an attempt at it; `remark` stands before the request."""

    ticket: Ticket
    history: Messages
    single: bool  # the attempt was one reply: the question need not be put again
    remark: str = ""


class Revising(gymnasium.Env[Messages, Message]):
    """The environment that `make_env` makes, opened by an earlier attempt and the request to make another.

    Episode number i is the revision `problems[i]`: the same task and the same initial state as then.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}  # type: ignore[misc]

    def __init__(self, make_env: MakeEnv, problems: Sequence[Revision]) -> None:
        self.inner = make_env()
        self._problems = problems
        self.observation_space, self.action_space = MessagesSpace(), ReplySpace()

    @property
    def blocking(self) -> bool:
        """As the environment inside is."""
        return bool(getattr(self.inner.unwrapped, "blocking", True))

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Start revision number `options["index"]`; the seed is that of the earlier attempt, whatever is given."""
        revision = self._problems[(options or {})["index"]]
        was = revision.ticket
        opening, info = self.inner.reset(seed=was.seed, options={"split": was.split, "index": was.index})
        request = CHECK if revision.single else "\n".join([AGAIN, *(text(m) for m in opening if m["role"] != "system")])
        return _with_request(revision.history, revision.remark + request), info

    def step(self, action: Message | str) -> tuple[Messages, float, bool, bool, dict[str, Any]]:
        """Play one turn."""
        return self.inner.step(action)  # type: ignore[arg-type, return-value]

    def oracle(self) -> Iterator[Message]:
        """The oracle of the environment inside."""
        return self.inner.unwrapped.oracle()  # type: ignore[attr-defined]

    def random(self, rng: np.random.Generator) -> Message:
        """The random floor of the environment inside."""
        return self.inner.unwrapped.random(rng)  # type: ignore[attr-defined]

    def noop(self) -> Message:
        """The reply that does nothing."""
        return self.inner.unwrapped.noop()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close the environment inside."""
        self.inner.close()


@dataclass(frozen=True)
class Sequential:
    """Play an episode, show it to the policy, let it try again, up to n times; the last attempt counts.

    An attempt whose score is high enough is kept. `scorer` is "none": every attempt is revised; "logprob": those whose
    sampled tokens have a mean log-probability below `below`; "env": those that failed, and the policy is told so,
    which nobody could tell it outside a test, so that is an upper bound.
    """

    n: Count = 3
    scorer: Literal["none", "logprob", "env"] = "none"
    below: float = -0.2
    _problems: list[Revision] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def width(self) -> int:
        """One episode at first."""
        return 1

    @property
    def upper_bound(self) -> bool:
        """With the environment's verdict."""
        return self.scorer == "env"

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """Rounds of revisions."""
        return {ROUND: partial(Revising, make_env, self._problems)}

    async def settle(self, attempts: Sequence[Attempt], stage: Stage) -> list[Choice]:
        """Revise whatever is to be revised, round after round."""
        played = [[attempt.candidates[-1]] for attempt in attempts]
        for number in range(2, self.n + 1):
            poor = [i for i, tries in enumerate(played) if len(tries) == number - 1 and self._is_poor(tries[-1])]
            if not poor:
                break
            self._problems[:] = [self._revision(attempts[i].ticket, played[i][-1]) for i in poor]
            seeds = [derive(attempts[i].ticket.seed, ROUND, attempts[i].member, number) for i in poor]
            for i, episode in zip(poor, await stage.played(f"{ROUND}:test", seeds), strict=True):
                if episode is not None:
                    played[i].append(episode)
        return [settled(tries[-1], a.member, tuple(tries)) for a, tries in zip(attempts, played, strict=True)]

    def curve(self, chosen: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """The success of the last of the first k attempts."""
        return {k: float(np.mean([choice.candidates[:k][-1].success for choice in chosen])) for k in powers(self.n)}

    def _is_poor(self, attempt: Trajectory) -> bool:
        if self.scorer == "env":
            return not attempt.success
        return self.scorer == "none" or mean_logprob(attempt) < self.below

    def _revision(self, ticket: Ticket, attempt: Trajectory) -> Revision:
        history: list[Message] = []
        for turn in attempt.turns:
            history += turn.observation
            history += [turn.reply] if turn.reply else []
        single = len(attempt.turns) == 1
        return Revision(ticket, (*history, *attempt.final), single, WRONG if self.scorer == "env" else "")


def _with_request(history: Messages, request: str) -> Messages:
    """The history and the request, as one message where the history ends with the user's: templates refuse two."""
    last = history[-1] if history else None
    if last is not None and last["role"] == "user" and isinstance(last["content"], str):
        return (*history[:-1], user(f"{last['content']}\n{request}"))
    return (*history, user(request))
