"""Failures that were right up to some turn: the turn is corrected, and the policy goes on from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, SupportsFloat

import gymnasium

from agents.scripted import oracle
from envs.types import Message, Messages, Stop
from rl.methods.estimators.tasks import hints
from rl.methods.options import Share
from rl.methods.parts.strategy.expert import Step, WrappingRunner
from rl.methods.parts.strategy.independent import play_members
from rl.methods.parts.strategy.replies.drafts import play_starts, sound
from rl.records import Group, Ticket, Trajectory, Turn
from rl.rollout.retry import groups_by_seat
from rl.rollout.runner import Runner
from rl.rollout.scripted import play_script_on
from rl.rollout.seat import Start


async def recycled(
    runner: Runner,
    ticket: Ticket,
    *,
    most: Share = 0.25,
    below: Share = 0.5,
    threshold: Share = 0.5,
    metric: str = "",
) -> list[Group]:
    """Recycling Failures (2025): failures take the places of themselves, corrected at their first wrong turn.

    Up to a share `most` of the group, at least one member, and only where less than a share `below` of it succeeded. A
    failure keeps the turns before its first wrong one, of which there must be some; the environment's oracle plays that
    turn, and the policy goes on. If that succeeds, it takes the failure's place in the group. The oracle's reply is
    context, never trained; what the step paid is added to the turn before it.

    A turn is wrong if its score is below `threshold`: the `metric` of this name that the environment reports for it,
    such as a step checker's, 1 for a turn without. Without a name it is whether the oracle, from the state after the
    turn on, still brings the episode to success, which takes an oracle that reads the state.
    """
    attempts = await play_members(runner, ticket, range(ticket.size))
    (group,) = groups_by_seat(runner, ticket, attempts)
    members = group.trajectories
    if not members or sum(member.success for member in members) >= below * len(members):
        return [group]
    failures = [place for place, member in enumerate(members) if not member.success]
    for place in failures[: max(1, int(most * ticket.size))]:
        failure = members[place]
        scores = await _scores(runner, ticket, failure, threshold, metric)
        error = hints.first_error(scores, threshold)
        if error is None or not error:
            continue
        number = ticket.size + failure.member
        runner_ = WrappingRunner(runner, partial(_CorrectingEnv, turn=error))
        tries = (await play_starts(runner_, ticket, {number: Start(failure.turns[:error])}))[number]
        correction = sound(tries)
        group.errored += [one for one in tries if one.stop == Stop.ERROR]
        if correction is None:
            continue
        if not correction.success:
            failure.num_side_sampled += _num_sampled(correction.turns[error:])
            continue
        correction.member, correction.guided = failure.member, 1
        correction.num_side_sampled = _num_sampled(failure.turns[error:])
        members[place], group.rewards[place] = correction, correction.reward
    return [group]


async def _scores(runner: Runner, ticket: Ticket, failure: Trajectory, threshold: float, metric: str) -> list[float]:
    """The scores of a failure's turns, up to the first below `threshold`."""
    scores: list[float] = []
    for place, turn in enumerate(failure.turns):
        if metric:
            scores.append(turn.metrics.get(metric, 1.0))
        else:
            script = partial(_continued, [one.reply for one in failure.turns[: place + 1] if one.reply is not None])
            label = f"the oracle after turn {place} of task {ticket.split}/{ticket.index} seed {ticket.seed}"
            trial, failed_env = await play_script_on(runner, ticket, script, label=label)
            if failed_env is not None:
                runner.discard(failed_env)
            scores.append(float(trial.success and trial.stop != Stop.ERROR))
        if scores[-1] < threshold:
            break
    return scores


def _continued(replies: Sequence[Message], env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """Yield these replies, then the oracle's from the state that they have led to."""
    yield from replies
    yield from oracle(env, seed)


def _num_sampled(turns: Sequence[Turn]) -> int:
    return sum(len(turn.completion.ids) for turn in turns)


class _CorrectingEnv(gymnasium.Wrapper):
    """An environment whose oracle replies in turn number `turn`, from 0, in place of whoever plays."""

    def __init__(self, env: gymnasium.Env, turn: int) -> None:
        super().__init__(env)
        self.turn, self._num_steps, self._seed = turn, 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Begin an episode."""
        self._num_steps, self._seed = 0, seed or 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Message | str) -> Step:  # type: ignore[override]
        """Play one turn, and the oracle's after it where that is the next."""
        result: Step = self.env.step(action)
        self._num_steps += 1
        messages, reward, terminated, truncated, _ = result
        if self._num_steps != self.turn or terminated or truncated:
            return result
        correction = next(oracle(self.env, self._seed))
        after, more, terminated, truncated, info = self.env.step(correction)
        total: SupportsFloat = float(reward) + float(more)
        return (*messages, correction, *after), total, terminated, truncated, {**info, "rewards": {}}
