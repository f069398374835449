"""Imitation by cross-entropy: oracle episodes that are played as they are needed, and the passes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import gymnasium
import numpy as np
from torch import nn

from agents.agent import Agent
from agents.scripted import oracle
from envs.types import Message
from rl.learner.batch import trajectory_rows
from rl.learner.learner import Learner
from rl.learner.packing import opening_length
from rl.methods.inputs import Row
from rl.methods.parts import ratio, reduce, schedule, surrogate
from rl.methods.recipe import Recipe
from rl.records import Ticket, Trajectory
from rl.rollout.scripted import play_script, tokenize
from rl.seeds import derive, generator

IMITATION = Recipe(
    ratio=ratio.on_policy,
    surrogate=surrogate.nll,
    reduce=reduce.token_mean,
    schedule=partial(schedule.constant, warmup=10),
)
LEARNING_RATE = 1e-3
STEP_ROWS, STEP_TOKENS = 64, 1024  # size of a step: more steps of few tokens learn more than few steps of many
MAX_PASSES, MAX_TOKENS = 60, 3_000_000  # bounds of imitation; of the bundled model, ten minutes of one CPU core
FIRST_MEASUREMENT, MEASUREMENT_GAP = 10, 0.1  # steps, and the share of the steps so far until the next one
ENOUGH_UNEQUAL, MOSTLY_SOLVED, ENOUGH_VALID = 0.5, 0.5, 0.8  # see `Measurement.suffices`
CONSTANTS = (
    *(LEARNING_RATE, STEP_ROWS, STEP_TOKENS, MAX_PASSES, MAX_TOKENS),
    *(FIRST_MEASUREMENT, MEASUREMENT_GAP, ENOUGH_UNEQUAL, MOSTLY_SOLVED, ENOUGH_VALID),
)


class Measurement(NamedTuple):
    """How groups of episodes end that are sampled as in training.

    Attributes:
        success: Share of the episodes that succeeded.
        unequal: Share of the groups whose members have unequal rewards. The others teach nothing.
        valid: Share of the replies that the environment could act on.

    """

    success: float
    unequal: float
    valid: float

    def suffices(self, until: float | None, least_valid: float = ENOUGH_VALID) -> bool:
        """Whether reinforcement learning can begin.

        It can where success has reached `until`, half of the groups have unequal rewards, or equal ones because they
        are solved, and the share `least_valid` of the replies are moves. While a model hardly knows the moves, a reply
        that is none may be worth more to it than a wrong one, and it unlearns them. Without success to reach (None)
        any group will do: more imitation only makes replies more alike.
        """
        if until is None:
            return self.valid >= least_valid and self.unequal > 0
        can_learn = self.unequal >= ENOUGH_UNEQUAL or self.success >= MOSTLY_SOLVED
        return self.success >= until and self.valid >= least_valid and can_learn

    def __str__(self) -> str:
        """The numbers in words."""
        return (
            f"sampled success {self.success:.2f}, unequal rewards in {self.unequal:.2f} of the groups, "
            f"{self.valid:.2f} of the replies valid"
        )


class Progress(NamedTuple):
    """How far imitation has come: optimiser steps, and how many different episodes they have used."""

    steps: int
    episodes: int


class Demonstrations:
    """Oracle episodes on distinct training tasks, each played, and turned into tokens, when it is first read.

    Reading one raises `ValueError` if the oracle does not succeed on its task, unless others play too (`is_contest`).
    """

    def __init__(
        self,
        env: gymnasium.Env,
        make_agent: Callable[[], Agent],
        encode: Callable[[Message], Sequence[int]],
        count: int,
        seed: int,
        num_tasks: int | None = None,
    ) -> None:
        """Choose the tasks.

        Args:
            env: The environment to play; the caller closes it.
            make_agent: Makes the agent whose prompts the model will read.
            encode: Turns an oracle's reply into token ids.
            count: Number of episodes; with fewer training tasks, one of each.
            seed: Seed of the choice of tasks and of the environment.
            num_tasks: Number of training tasks to choose from, the first ones; all by default.

        """
        num_tasks = num_tasks or len(env.unwrapped.load("train"))  # type: ignore[attr-defined]
        self.env, self.make_agent, self.encode, self.seed = env, make_agent, encode, seed
        self.indices: list[int] = generator(seed, "cold start").permutation(num_tasks)[:count].tolist()
        self._episodes: list[Trajectory] = []

    def __len__(self) -> int:
        """Return the number of episodes, those that are not played yet included."""
        return len(self.indices)

    def first(self, count: int) -> list[Trajectory]:
        """Return the first `count` episodes, or all if there are fewer."""
        while len(self._episodes) < min(count, len(self)):
            self._episodes.append(self._play(len(self._episodes)))
        return self._episodes[:count]

    def __getitem__(self, number: int) -> Trajectory:
        """Return episode `number`, from 0; all before it are played too."""
        return self.first(number + 1)[number] if number >= len(self._episodes) else self._episodes[number]

    def _play(self, number: int) -> Trajectory:
        index = self.indices[number]
        ticket = Ticket(number, index, "train", derive(self.seed, "cold start", number), 1)
        episode = play_script(self.env, ticket, oracle)
        is_contest = getattr(self.env.unwrapped, "is_contest", False)  # nobody wins every game of one
        if episode.error or not (episode.success or is_contest):
            ended = f"no success with a return of {episode.reward:g}; is Outcome.success set?"
            raise ValueError(f"the oracle fails on task {episode.task or index}: {episode.failure or ended}")
        return tokenize(episode, self.make_agent(), self.encode)


def make_learner(model: nn.Module, microbatch_tokens: int, recompute: bool) -> Learner:
    """Return a learner that trains every weight of `model` in place, at `LEARNING_RATE`.

    `microbatch_tokens` is the number of tokens of one forward pass. With `recompute`, blocks are computed again in the
    backward pass: less memory, more time.
    """
    return Learner(model, lr=LEARNING_RATE, microbatch_tokens=microbatch_tokens, recompute=recompute)


def imitate(
    learner: Learner,
    episodes: Demonstrations,
    seed: int,
    *,
    until: float | None,
    least_valid: float = ENOUGH_VALID,
    measure: Callable[[], Measurement],
    report: Callable[[Progress, Measurement], None],
) -> tuple[Progress, Measurement]:
    """Train on the replies of `episodes` by cross-entropy until what is sampled `suffices`, or a bound is reached.

    Every episode is used once before any is used again: a model that has seen its episodes often knows them by heart
    and varies less, and reinforcement learning then has less to choose from. For the same reason imitation ends early
    on purpose.

    Args:
        learner: From `make_learner`.
        episodes: What is imitated; no more are played than are needed.
        seed: Seed of the order in which episodes are repeated.
        until: Sampled success at which imitation may end; at 0 it ends with the first measurement. None: any success
            will do.
        least_valid: Share of valid replies at which it may end.
        measure: Measures the model on tasks that are neither imitated nor tested.
        report: Called after each measurement.

    Returns:
        How far imitation went, and the last measurement.

    """
    opening = common_opening(episodes.first(STEP_ROWS))
    steps, tokens, next_measurement = 0, 0, FIRST_MEASUREMENT
    for num_episodes, batch in batches(episodes, seed):
        learner.update(batch, IMITATION, scale=IMITATION.schedule(steps, 0))
        steps, tokens = steps + 1, tokens + opening + sum(row.size + len(row.prefix) - opening for row in batch)
        if steps == next_measurement and tokens < MAX_TOKENS:
            next_measurement += max(FIRST_MEASUREMENT, int(steps * MEASUREMENT_GAP))
            progress, measurement = Progress(steps, num_episodes), measure()
            report(progress, measurement)
            if until == 0 or measurement.suffices(until, least_valid):
                return progress, measurement
        if tokens >= MAX_TOKENS:
            break
    progress, measurement = Progress(steps, num_episodes), measure()
    report(progress, measurement)
    return progress, measurement


def batches(episodes: Demonstrations, seed: int) -> Iterator[tuple[int, list[Row]]]:
    """Yield `(episodes used so far, rows of one step)` for `MAX_PASSES` passes: first in order, then shuffled.

    A step has at most `STEP_ROWS` rows, and ends with the row by which it reaches `STEP_TOKENS` tokens, not counting
    the `common_opening`, which is computed once. A row is one unbroken token history of an episode.
    """
    opening = common_opening(episodes.first(STEP_ROWS))
    rng = generator(seed, "imitation order")
    rows: dict[int, list[Row]] = {}  # of the episodes that were used
    batch: list[Row] = []
    tokens = 0
    for passes in range(MAX_PASSES):
        for number in rng.permutation(len(episodes)).tolist() if passes else range(len(episodes)):
            if number not in rows:
                episode = episodes[number]
                rows[number] = trajectory_rows(episode, np.ones(episode.num_sampled), number=number, group=number)
            batch += rows[number]
            tokens += sum(row.size + len(row.prefix) - opening for row in rows[number])
            if len(batch) >= STEP_ROWS or tokens >= STEP_TOKENS:
                yield len(rows), batch
                batch, tokens = [], 0
    if batch:
        yield len(rows), batch


def common_opening(episodes: Sequence[Trajectory]) -> int:
    """Return the length of the opening that a forward pass over `episodes` computes once; 0 without one."""
    return opening_length([episode.turns[0].context for episode in episodes if episode.turns])
