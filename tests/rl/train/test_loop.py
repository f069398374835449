"""The training loop: which groups an update trains on, what it logs, and when it gives up."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from envs.types import Stop
from envs.watchdog import Clock
from rl.cli import UserError
from rl.methods.inputs import Row
from rl.methods.parts import keep, schedule
from rl.methods.parts.sampler import History, uniform
from rl.methods.recipe import Recipe
from rl.records import Group, Ticket, Trajectory
from rl.rollout.play_state import PlayState
from rl.rollout.roles import Role
from rl.schedule import Schedule
from rl.train.loop import Loop, Plan, TrainingStopped
from rl.train.progress import Progress, state_of
from rl.train.seats.trainees import Trainee
from tests.support.batches import ToyScorer, make_trajectory
from tests.support.paths import ROOT
from tests.support.runs import flags, metrics, rollouts, train, train_run

Rewards = Callable[[int], Sequence[float | str]]  # ticket number -> reward of each member, or the text of its error
Delay = Callable[[int], int]  # ticket number -> rounds of the event loop until its group ends


@dataclass
class Stage:
    """A loop whose groups get the rewards that the test chooses, and a record of what it does."""

    rewards: Rewards = lambda number: (0.0, 1.0)
    delay: Delay = lambda number: 1
    changes: dict[str, Any] = field(default_factory=dict)  # to the recipe
    plan: dict[str, Any] = field(default_factory=dict)
    training_rows: list[list[Row]] = field(default_factory=list)
    groups: list[list[Group]] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    lr: float = 1.0  # it is the learner too
    minibatches: int = 1
    optimizer: Any = field(default_factory=lambda: torch.optim.AdamW([torch.zeros(1)]))

    def __post_init__(self) -> None:
        recipe = Recipe(strategy=self.strategy, schedule=schedule.constant).but(**self.changes)
        plan = Plan(**{"groups": 2, "size": 2, "seed": 0, "total_updates": 100, **self.plan})
        nothing = SimpleNamespace(play_state=PlayState(), policy=None, clock=Clock())
        self.loop = Loop(
            nothing,
            [Trainee(Role("", ("agent",)), self, ToyScorer(), None, None)],  # type: ignore[arg-type]
            recipe,
            plan,
            Progress(History(50)),
            lambda: None,
            self.on_update,  # type: ignore[arg-type]
        )

    async def strategy(self, runner: Any, ticket: Ticket) -> list[Group]:
        self.tickets.append(ticket)
        for _ in range(self.delay(ticket.number)):
            await asyncio.sleep(0)
        group = Group(ticket, [])
        for member, outcome in enumerate(self.rewards(ticket.number)):
            if isinstance(outcome, str):
                group.errored.append(Trajectory([], Stop.ERROR, member=member, error=outcome))
            else:
                group.trajectories.append(make_trajectory((3, outcome)))
        group.__post_init__()
        return [group]

    def update(self, rows: list[Row], recipe: Recipe, *, scale: float, seed: int) -> dict[str, float]:
        self.training_rows.append(rows)
        return {"loss": 0.0}

    def on_update(self, metrics: dict[str, float], groups: list[Group]) -> None:
        self.metrics.append(metrics)
        self.groups.append(groups)

    def run(self, updates: int) -> Stage:
        asyncio.run(asyncio.wait_for(self.loop.run(updates), 30))
        return self

    def numbers(self) -> list[list[int]]:
        """Return the numbers of the tickets that each update used up."""
        return [[group.ticket.number for group in groups] for groups in self.groups]


SPEEDS: dict[str, Delay] = {
    "alike": lambda number: 1,
    "the oldest last": lambda number: 60 - 3 * (number % 20),
    "anyhow": lambda number: number * 7919 % 41,
}


@pytest.mark.parametrize("lag", [0, 1, 3])
@pytest.mark.parametrize("speed", SPEEDS)
def test_the_oldest_tickets_are_trained_on_first_however_fast_they_end(speed: str, lag: int) -> None:
    stage = Stage(delay=SPEEDS[speed], plan={"schedule": Schedule(lag=lag)}).run(6)
    assert stage.numbers() == [[2 * k, 2 * k + 1] for k in range(6)]


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("speed", SPEEDS)
def test_the_lag_is_what_was_asked_for_once_the_run_is_under_way(speed: str, lag: int) -> None:
    stage = Stage(delay=SPEEDS[speed], plan={"schedule": Schedule(lag=lag)}).run(6)
    expected = [min(update, lag) for update in range(6)]
    assert [line["lag/max"] for line in stage.metrics] == expected
    assert [line["lag/mean"] for line in stage.metrics] == expected


def test_the_clock_of_deadlines_stands_still_while_the_learner_is_at_work() -> None:
    stage, readings = Stage(plan={"schedule": Schedule(lag=1)}), []
    clock, update, on_update = stage.loop.runner.clock, stage.update, stage.on_update

    def read(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        start = clock.now()
        time.sleep(0.01)
        readings.append(clock.now() - start)
        return function(*args, **kwargs)

    stage.update, stage.loop.on_update = partial(read, update), partial(read, on_update)  # type: ignore[method-assign]
    start = clock.now()
    stage.run(3)
    assert readings == [0.0] * 6
    assert clock.now() > start


@pytest.mark.parametrize("lag", [0, 2])
def test_tickets_are_opened_as_they_are_needed_and_never_more(lag: int) -> None:
    stage = Stage(plan={"schedule": Schedule(lag=lag), "groups": 3}).run(4)
    assert len(stage.tickets) <= 3 * (4 + lag)
    assert [ticket.number for ticket in stage.tickets] == list(range(len(stage.tickets)))
    assert stage.loop.progress.admitted == 3 * (4 + 1 + lag)  # and those of the next update, begun or not


def test_a_group_that_is_not_kept_is_replaced_and_counts_in_the_metrics_all_the_same() -> None:
    equal = {1, 2, 5}
    stage = Stage(lambda number: (1.0, 1.0) if number in equal else (0.0, 1.0), changes={"keep": keep.varied}).run(2)
    assert stage.numbers() == [[0, 1, 2, 3], [4, 5, 6]]
    assert [[row.group for row in rows] for rows in stage.training_rows] == [[0, 0, 1, 1]] * 2
    first, second = stage.metrics
    assert (first["groups/played"], first["groups/kept"], first["groups/zero_variance"]) == (4, 2, 0.5)
    assert first["reward/mean"] == pytest.approx((0.5 + 1 + 1 + 0.5) / 4)
    assert second["reward/mean"] == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert (first["episodes/played"], second["episodes/played"]) == (8, 6)


def test_rewards_are_logged_before_they_are_shaped() -> None:
    stage = Stage(changes={"shape": (lambda group: [100.0 * r for r in group.rewards],)}).run(1)
    assert stage.metrics[0]["reward/mean"] == 0.5
    assert stage.groups[0][0].rewards == [0.0, 100.0]


def test_the_others_of_a_group_are_trained_on_when_a_member_fails() -> None:
    stage = Stage(lambda number: (1.0, "sandbox gone", 0.0) if number == 0 else (0.0, 1.0, 0.0)).run(1)
    assert [row.group for row in stage.training_rows[0]] == [0, 0, 1, 1, 1]
    assert [row.adv[0] for row in stage.training_rows[0][:2]] == [
        0.5,
        -0.5,
    ]  # against those that ended, not against three
    assert stage.metrics[0]["episodes/errored"] == 1
    assert stage.metrics[0]["episodes/played"] == 5
    assert stage.metrics[0]["reward/mean"] == pytest.approx(2 / 5)


def test_a_group_that_only_fails_is_replaced() -> None:
    stage = Stage(lambda number: ("gone", "gone") if number == 0 else (0.0, 1.0)).run(1)
    assert stage.numbers() == [[0, 1, 2]]
    assert stage.metrics[0]["episodes/errored"] == 2
    assert stage.metrics[0]["groups/kept"] == 2


def test_a_run_in_which_every_episode_fails_stops_with_the_first_error() -> None:
    stage = Stage(lambda number: (f"OSError: no {number}",) * 2)
    with pytest.raises(TrainingStopped, match=r"^every episode fails: OSError: no 0$"):
        stage.run(1)
    assert len(stage.tickets) < 10


def test_a_run_in_which_no_group_is_ever_kept_stops_with_its_rewards() -> None:
    stage = Stage(lambda number: (0.25, 0.25), changes={"keep": keep.varied})
    with pytest.raises(TrainingStopped, match=r"^0 of the last 2\d groups were kept; rewards were 0\.25: "):
        stage.run(1)


def test_failures_now_and_then_do_not_stop_a_run() -> None:
    stage = Stage(lambda number: ("gone",) * 2 if number % 4 else (0.0, 1.0)).run(5)
    assert len(stage.training_rows) == 5


def test_a_few_tasks_that_fail_at_once_do_not_stop_a_run_before_the_others_have_ended() -> None:
    stage = Stage(
        lambda number: ("gone",) * 2 if number < 5 else (0.0, 1.0),
        lambda number: 1 if number < 5 else 50,
        plan={"groups": 6},
    ).run(1)
    assert len(stage.training_rows) == 1


def test_a_stop_ends_a_run_that_waits_and_leaves_its_place_alone() -> None:
    stage = Stage(delay=lambda number: 1 if number < 4 else 10**9)
    stage.loop.progress.history.record(0, 0.5)

    async def interrupt() -> None:
        running = asyncio.create_task(stage.loop.run(10))
        while len(stage.tickets) < 5:
            await asyncio.sleep(0)
        stage.loop.stopping.set()
        await asyncio.wait_for(running, 10)
        assert all(task is asyncio.current_task() for task in asyncio.all_tasks())

    asyncio.run(interrupt())
    assert stage.loop.progress.update == len(stage.metrics) == 2
    assert sorted(stage.loop.progress.open) == [4, 5]


def divide(group: Group) -> bool:
    return bool(1 / 0)


async def divide_together(runner: Any, ticket: Ticket) -> list[Group]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(divide, Group(ticket, [])))
    return []


@pytest.mark.parametrize("changes", [{"keep": divide}, {"strategy": divide_together}, {"shape": (divide,)}])
def test_an_error_in_a_part_is_named_with_its_line(changes: dict[str, Any]) -> None:
    name = re.escape(f"raised ZeroDivisionError: division by zero ({__file__}, line ")
    with pytest.raises(
        TrainingStopped, match=rf"^{next(iter(changes))} divide\w*: {name}\d+\); the update was not made"
    ):
        Stage(changes=changes).run(1)


def test_an_error_to_which_no_line_of_a_users_led_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.train.scheduling.updater.derive", len)
    with pytest.raises(TypeError, match="exactly one argument"):
        Stage().run(1)


@pytest.mark.parametrize("error", [UserError("no room"), OSError(errno.ENOSPC, "full"), torch.OutOfMemoryError("full")])
def test_what_is_no_fault_of_a_part_is_not_blamed_on_it(error: Exception) -> None:
    def meet(group: Group) -> bool:
        raise error

    with pytest.raises(type(error)):
        Stage(changes={"keep": meet}).run(1)


def test_the_saved_state_is_of_the_moment_it_was_taken() -> None:
    stage = Stage(delay=SPEEDS["anyhow"], plan={"schedule": Schedule(lag=2)}).run(2)
    progress = stage.loop.progress
    runner: Any = stage.loop.runner
    snapshot, state = (take(runner, stage.loop.recipe) for take in (progress.snapshot, progress.state_dict))
    snapshot_text = state_text(state)
    stage.run(4)
    assert progress.update == 4
    assert state_text(state) == snapshot_text
    assert state_text(state_of(snapshot)) == snapshot_text
    fresh = Progress(History(50))
    fresh.load_state_dict(state, runner, stage.loop.recipe)
    assert state_text(fresh.state_dict(runner, stage.loop.recipe)) == snapshot_text


def state_text(state: object) -> str:
    return re.sub(r"streams=\{.*?\}", "", repr(state))


def test_which_task_is_drawn_depends_on_the_ticket_alone() -> None:
    tasks_by_speed = {}
    for name, speed in SPEEDS.items():
        stage = Stage(
            lambda number: (0.0, float(number % 3 > 0)), speed, {"keep": keep.varied, "sampler": partial(uniform)}
        ).run(8)
        tasks_by_speed[name] = [(ticket.number, ticket.index, ticket.seed) for ticket in stage.tickets]
    shortest = min(map(len, tasks_by_speed.values()))
    assert len({repr(tickets[:shortest]) for tickets in tasks_by_speed.values()}) == 1


# With a real model


def test_without_lag_every_token_is_from_the_policy_that_is_trained(tmp_path: Path) -> None:
    out = train_run(*flags("Talk", updates=3), out=tmp_path / "run")
    for update in (1, 2, 3):
        turns = [turn for line in rollouts(out, update) for turn in line["turns"]]
        assert {tuple(turn["versions"]) for turn in turns} == {(update - 1,)}
        assert metrics(out)[update - 1]["lag/max"] == 0


def test_with_lag_no_token_is_older_than_that_and_some_replies_span_updates(tmp_path: Path) -> None:
    out = train_run(*flags("Talk", updates=8, lag=2, groups=1, turn_tokens=12), out=tmp_path / "run")
    spans = set()
    for update in range(1, 9):
        versions = {v for line in rollouts(out, update) for turn in line["turns"] for v in turn["versions"]}
        spans |= {len(turn["versions"]) for line in rollouts(out, update) for turn in line["turns"]}
        assert max(0, update - 3) <= min(versions) <= max(versions) < update
    assert max(spans) > 1
    assert [line["lag/mean"] for line in metrics(out)] == [0, 1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("lag", [0, 2])
def test_two_runs_are_the_same_bit_for_bit(tmp_path: Path, lag: int) -> None:
    one, two = (train_run(*flags("Talk", updates=4, lag=lag), out=tmp_path / name) for name in "ab")
    assert metrics(one) == metrics(two)
    assert [rollouts(one, update) for update in (1, 4)] == [rollouts(two, update) for update in (1, 4)]
    other = train_run(*flags("Talk", updates=4, lag=lag, seed=1), out=tmp_path / "c")
    assert metrics(one) != metrics(other)


def test_the_hash_seed_of_the_process_does_not_matter(tmp_path: Path) -> None:
    here = train_run(*flags("Talk", updates=2, lag=1), out=tmp_path / "here")
    there = tmp_path / "there"
    command = [sys.executable, "-m", "rl.train", *flags("Talk", updates=2, lag=1), "--out", str(there)]
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert metrics(here) == metrics(there)
    assert rollouts(here, 2) == rollouts(there, 2)


def test_a_broken_environment_ends_the_command_in_one_line(tmp_path: Path) -> None:
    result = train(*flags("Broken", updates=2, eval_episodes=0), "--out", str(tmp_path / "run"))
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "every episode fails: OSError: no ink for task" in result.err
    result = train(*flags("Broken", updates=2), "--out", str(tmp_path / "other"))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "every test episode fails: OSError: no ink for task" in result.err


def test_tasks_that_never_pay_end_the_command_in_one_line_if_only_varied_groups_count(tmp_path: Path) -> None:
    result = train(*flags("Unpaid", updates=2, algo="dapo"), "--out", str(tmp_path / "run"))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "0 of the last 20 groups were kept; rewards were 0: the tasks are too easy or too hard" in result.err


def test_what_comes_between_updates_comes_before_the_first_one_too_and_is_waited_for() -> None:
    stage, seen = Stage(), []

    async def between_updates() -> None:
        await asyncio.sleep(0)
        seen.append(stage.loop.progress.update)

    stage.loop.between_updates = between_updates
    stage.run(2)
    assert seen == [0, 1, 2]


def test_a_run_that_is_stopped_does_not_wait_for_what_comes_between_updates() -> None:
    stage, ends = Stage(), []

    async def between_updates() -> None:
        if stage.loop.progress.update == 1:
            asyncio.get_running_loop().call_later(0.01, stage.loop.stopping.set)
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("cancelled")

    stage.loop.between_updates = between_updates
    stage.run(3)
    assert (stage.loop.progress.update, ends) == (1, ["cancelled"])


def test_an_error_between_updates_ends_the_run() -> None:
    async def between_updates() -> None:
        raise TrainingStopped("every val episode fails")

    stage = Stage()
    stage.loop.between_updates = between_updates
    with pytest.raises(TrainingStopped, match="every val episode fails"):
        stage.run(1)
