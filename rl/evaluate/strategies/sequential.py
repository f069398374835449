"""Sequential revision: the policy reads its own attempt and tries again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np

from envs.spaces import MessagesSpace, ReplySpace
from envs.types import Message, Messages, text, user
from rl.evaluate.attempts import Choice, make_choice
from rl.evaluate.strategies.selection import episode_counts
from rl.evaluate.strategies.strategy import Attempt, MakeEnv, StrategyContext, mean_logprob
from rl.evaluate.voting import Vote
from rl.methods.options import Count
from rl.records import Ticket, Trajectory
from rl.seeds import derive

ROUND = "revise"
CHECK_REQUEST = "Check your answer, then answer again."
RESTART_REQUEST = "Try again from the start."
FAILURE_REMARK = "That was wrong. "


@dataclass(frozen=True, slots=True)
class Revision:
    """A task to play again after `history`, the messages of an earlier attempt at it.

    `ticket` names the task and the seed of the attempt. `single_turn` attempts need not be shown the question again.
    `remark` precedes the request to try again.
    """

    ticket: Ticket
    history: Messages
    single_turn: bool
    remark: str = ""


class RevisionEnv(gymnasium.Env[Messages, Message]):
    """The environment of the first round, whose episodes open with an earlier attempt and a request to try again.

    Task number i is `revisions[i]`: the same task with the same initial state as in the earlier attempt. The list may
    be replaced in place between episodes.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}  # type: ignore[misc]

    def __init__(self, make_env: MakeEnv, revisions: Sequence[Revision]) -> None:
        self.env = make_env()
        self._revisions = revisions
        self.observation_space, self.action_space = MessagesSpace(), ReplySpace()

    @property
    def blocking(self) -> bool:
        """Whether calls of the wrapped environment may wait for something outside; True if it does not say."""
        return bool(getattr(self.env.unwrapped, "blocking", True))

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Start revision number `options["index"]`, which must be given, with the earlier attempt's seed, not `seed`.

        Returns the messages of the earlier attempt with the request to try again, and the `info` of the environment.
        """
        revision = self._revisions[(options or {})["index"]]
        ticket = revision.ticket
        obs, info = self.env.reset(seed=ticket.seed, options={"split": ticket.split, "index": ticket.index})
        if revision.single_turn:
            request = CHECK_REQUEST
        else:
            request = "\n".join([RESTART_REQUEST, *(text(m) for m in obs if m["role"] != "system")])
        return _with_request(revision.history, revision.remark + request), info

    def step(self, action: Message | str) -> tuple[Messages, float, bool, bool, dict[str, Any]]:
        """Play one turn of the wrapped environment; return what its `step` returns."""
        return self.env.step(action)  # type: ignore[arg-type, return-value]

    def oracle(self) -> Iterator[Message]:
        """Return the oracle of the wrapped environment, which yields the replies that solve the task."""
        return self.env.unwrapped.oracle()  # type: ignore[attr-defined]

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random reply, as the wrapped environment draws it from `rng`."""
        return self.env.unwrapped.random(rng)  # type: ignore[attr-defined]

    def noop(self) -> Message:
        """Return the action of the wrapped environment that does nothing."""
        return self.env.unwrapped.noop()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()


@dataclass(frozen=True)
class Sequential:
    """Play an episode, show it to the policy and let it try again, up to n episodes; the last one counts.

    `scorer` decides which attempts are revised: "none", all of them; "logprob", those whose sampled tokens have a mean
    log-probability below `below`; "env", those that failed. With "env" the policy is told that it failed, which is
    known in an evaluation only, so the result is an upper bound.
    """

    n: Count = 3
    scorer: Literal["none", "logprob", "env"] = "none"
    below: float = -0.2
    _revisions: list[Revision] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def width(self) -> int:
        """The number 1: one episode is played in the first round."""
        return 1

    @property
    def upper_bound(self) -> bool:
        """True with the environment's verdict as the score."""
        return self.scorer == "env"

    def rounds(self, make_env: MakeEnv) -> Mapping[str, MakeEnv]:
        """Return the one environment of all revision rounds: {ROUND: a function that makes a `RevisionEnv`}."""
        return {ROUND: partial(RevisionEnv, make_env, self._revisions)}

    async def choose(self, attempts: Sequence[Attempt], context: StrategyContext) -> list[Choice]:
        """Revise the attempts that need it in up to n - 1 rounds and choose the last episode of each."""
        episodes = [[attempt.candidates[-1]] for attempt in attempts]
        for number in range(2, self.n + 1):
            pending = [
                i for i, tries in enumerate(episodes) if len(tries) == number - 1 and self._needs_revision(tries[-1])
            ]
            if not pending:
                break
            self._revisions[:] = [self._revision(attempts[i].ticket, episodes[i][-1]) for i in pending]
            seeds = [derive(attempts[i].ticket.seed, ROUND, attempts[i].member, number) for i in pending]
            for i, episode in zip(pending, await context.play_round(f"{ROUND}:test", seeds), strict=True):
                if episode is not None:
                    episodes[i].append(episode)
        return [make_choice(tries[-1], a.member, tuple(tries)) for a, tries in zip(attempts, episodes, strict=True)]

    def curve(self, choices: Sequence[Choice], vote: Vote) -> dict[int, float]:
        """Return, for k = 1, 2, 4, ... and n, the success rate if each attempt ended with its k-th episode.

        An attempt with fewer than k episodes counts with its last.
        """
        return {
            k: float(np.mean([choice.candidates[:k][-1].success for choice in choices])) for k in episode_counts(self.n)
        }

    def _needs_revision(self, episode: Trajectory) -> bool:
        if self.scorer == "env":
            return not episode.success
        return self.scorer == "none" or mean_logprob(episode) < self.below

    def _revision(self, ticket: Ticket, episode: Trajectory) -> Revision:
        history: list[Message] = []
        for turn in episode.turns:
            history += turn.observation
            history += [turn.reply] if turn.reply and not turn.internal else []
        remark = FAILURE_REMARK if self.scorer == "env" else ""
        return Revision(ticket, (*history, *episode.final), len(episode.replies) == 1, remark)


def _with_request(history: Messages, request: str) -> Messages:
    """Append the request, to the last message if that is the user's: chat templates refuse two in a row."""
    last = history[-1] if history else None
    if last is not None and last["role"] == "user" and isinstance(last["content"], str):
        return (*history[:-1], user(f"{last['content']}\n{request}"))
    return (*history, user(request))
