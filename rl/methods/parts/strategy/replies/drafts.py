"""Backend that begin with tokens of another member's, whose likeliest tokens were recorded as they were sampled."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium

from envs.types import Stop
from rl.methods.options import PartError
from rl.records import Completion, Finish, Ticket, Trajectory
from rl.rollout.episode import play_episode
from rl.rollout.retry import next_start, retry
from rl.rollout.runner import Runner
from rl.rollout.seat import Start

Attempts = list[Trajectory]


class RecordingRunner(Runner):
    """A runner that shares the state of `runner` and records the `count` likeliest tokens at each position."""

    def __init__(self, runner: Runner, count: int) -> None:
        vars(self).update(vars(runner))  # episodes under way are known to both
        self.runner, self.params = runner, replace(runner.params, alternatives=count)

    def take(self, *, fresh: bool = False) -> gymnasium.Env:
        """Return an environment of the other runner."""
        return self.runner.take(fresh=fresh)

    def put(self, env: gymnasium.Env) -> None:
        """Return an environment to the other runner."""
        self.runner.put(env)

    def discard(self, env: gymnasium.Env) -> None:
        """Close an environment that failed."""
        self.runner.discard(env)


def draft(runner: Runner, reply: Completion, position: int, choice: tuple[int, float]) -> Completion:
    """The beginning of `reply` before `position`, then another token with its log-probability, for `Start.reply`.

    It is a complete reply if the token ends one, or if there is no room for another.
    """
    token, logprob = choice
    is_full = position + 1 >= runner.params.max_tokens
    finish: Finish = "stop" if token in runner.make_agent().stop else "length" if is_full else "abort"
    of_model = logprob if reply.model_logprobs == reply.logprobs else math.nan
    return Completion(
        ids=(*reply.ids[:position], token),
        logprobs=(*reply.logprobs[:position], logprob),
        model_logprobs=(*reply.model_logprobs[:position], of_model),
        versions=reply.versions[: position + 1],
        finish=finish,
        alternatives=reply.alternatives[: position + 1],
    )


async def play_starts(runner: Runner, ticket: Ticket, starts: Mapping[int, Start]) -> dict[int, Attempts]:
    """Play these members, each from its start and retried on its own; return the attempts of each, in order."""

    async def play(member: int, first: Start) -> Attempts:
        def attempt(failures: Sequence[Trajectory]) -> Coroutine[Any, Any, Trajectory]:
            return play_episode(runner, ticket, member, start=next_start(first, failures))

        attempts = await retry(attempt, runner, ticket, member)
        for trajectory in attempts:
            trajectory.num_reused = len(first.reply.ids) if first.reply else 0
        return attempts

    calls = [partial(play, member, start) for member, start in sorted(starts.items())]
    results = await asyncio.gather(*(call() for call in calls))
    return dict(zip(sorted(starts), results, strict=True))


def sound(attempts: Sequence[Trajectory]) -> Trajectory | None:
    """The attempt at a member that ended without an error, or None."""
    return attempts[-1] if attempts and attempts[-1].stop != Stop.ERROR else None


def expect_alternatives(trajectory: Trajectory, strategy: str) -> None:
    """Raise `PartError` if the likeliest tokens of a reply that was sampled are not known."""
    for turn in trajectory.turns:
        if len(turn.completion.alternatives) != len(turn.completion.ids):
            raise PartError(
                f"--strategy {strategy}: the engine records no likeliest tokens (SamplingParams.alternatives); "
                "take --engine hf or vllm"
            )


def forget_alternatives(attempts: Mapping[int, Attempts]) -> None:
    """Drop the likeliest tokens from all replies, which nothing reads any more."""
    for turn in (turn for tries in attempts.values() for one in tries for turn in one.turns):
        if turn.completion.alternatives:
            turn.completion = replace(turn.completion, alternatives=())
