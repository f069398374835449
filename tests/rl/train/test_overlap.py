"""With `--overlap` episodes go on while the learner computes."""

from __future__ import annotations

import asyncio
import threading
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rl.learner.learner import Learner
from rl.methods.options import PartError
from rl.methods.recipe import Recipe
from rl.records import Group, Ticket
from rl.schedule import Schedule
from rl.train.learner_thread import LearnerThread
from rl.train.loop import TrainingStopped
from tests.rl.train.test_loop import Stage
from tests.support.runs import flags, metrics, rollouts, train, train_run

PATIENCE = 20.0  # seconds


class Overlapping(Stage):
    """A stage whose learner waits until two groups have ended while it is at work."""

    late: Sequence[int] = ()  # tickets whose groups wait for the learner to be at work
    ended = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._enough = threading.Event()
        self._is_learning = False

    async def strategy(self, runner: Any, ticket: Ticket) -> list[Group]:
        while ticket.number in self.late and not self._is_learning:
            await asyncio.sleep(0.001)
        groups = await super().strategy(runner, ticket)
        if self._is_learning:
            self.ended += 1
            if self.ended == 2:
                self._enough.set()
        return groups

    def update(self, rows: list, recipe: Recipe, *, scale: float, seed: int) -> dict[str, float]:
        self.threads = threading.current_thread().name
        self._enough.clear()
        self.ended, self._is_learning = 0, True
        self.wait()
        self._is_learning = False
        return super().update(rows, recipe, scale=scale, seed=seed)

    def wait(self) -> None:
        assert self._enough.wait(PATIENCE)


class Filling(Overlapping):
    """A stage whose learner waits until the groups of all the updates that sampling may be ahead have ended."""

    def wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while self.usable() + self.plan["groups"] < (self.plan["schedule"].lag + 1) * self.plan["groups"]:
            assert time.monotonic() < end
            time.sleep(0.001)

    def usable(self) -> int:
        """Count the tickets that have ended with a group to train on, beside those that are trained on."""
        return sum(any(is_kept for _, is_kept in results) for results in [*self.loop.progress.ended.values()])


def test_groups_end_while_the_learner_is_at_work() -> None:
    stage = Overlapping(plan={"schedule": Schedule(lag=2, overlap=True)})
    stage.late = range(2, 6)
    stage.run(1)
    assert stage.threads.startswith("learner") and stage.ended >= 2
    assert stage.numbers() == [[0, 1]]


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_no_group_is_older_than_the_lag_though_some_are_replaced_during_an_update(lag: int) -> None:
    def rewards(number: int) -> tuple[float, float]:
        return (0.0, 0.0) if number % 3 == 2 else (0.0, 1.0)  # a third is refused

    def keep(group: Group) -> bool:
        return len(set(group.rewards)) > 1

    stage = Filling(
        rewards=rewards,
        delay=lambda number: 60 + number * 7919 % 41,
        changes={"keep": keep},
        plan={"groups": 2, "schedule": Schedule(lag=lag, overlap=True)},
    )
    stage.run(6)
    assert [line["lag/max"] for line in stage.metrics] == [min(update, lag) for update in range(6)]
    assert len(stage.loop.progress.open) + stage.usable() <= (lag + 1) * 2


def test_an_error_of_the_learner_ends_the_run_with_its_reason() -> None:
    stage = Overlapping(plan={"schedule": Schedule(lag=1, overlap=True)})

    def fail(*args: Any, **options: Any) -> dict[str, float]:
        raise PartError("reduce returned shares of another shape")

    stage.update = fail  # type: ignore[method-assign]
    with pytest.raises(TrainingStopped, match="another shape; the update was not made"):
        stage.run(2)


def test_whoever_is_cancelled_waits_until_the_weights_are_whole() -> None:
    started, release, done = threading.Event(), threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        assert release.wait(20)
        done.set()

    async def main() -> None:
        thread = LearnerThread()
        task = asyncio.create_task(thread.run(work()))
        await asyncio.to_thread(started.wait, 20)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done.is_set()
        thread.close()

    asyncio.run(main())


def test_a_run_samples_with_weights_up_to_the_lag_old_and_can_be_resumed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"lag": 2, "groups": 1, "turn_tokens": 12}
    out = train_run(*flags("Talk", "--overlap", updates=4, **options), out=tmp_path / "run")
    again = train("--resume", "--out", str(out), "--updates", "8")
    assert again.code == 0, again.err
    assert "sampling goes on while the learner computes, up to 2 updates ahead" in again.out
    lines = metrics(out)
    assert [line["update"] for line in lines] == list(range(1, 9))
    assert all(line["lag/max"] <= 2 for line in lines) and lines[-1]["lag/max"] == 2
    assert all(line["episodes/errored"] == 0 for line in lines)
    for update in range(1, 9):
        for record in rollouts(out, update):
            versions = [version for turn in record["turns"] for version in turn["versions"]]
            assert all(update - 1 - 2 <= version <= update - 1 for version in versions)


def check_slow_steps(most_s: float, deadline_s: float, update_s: float, overlap: str, out: Path, patch: Any) -> None:
    """Train with steps of up to `most_s` and updates of `update_s` seconds; no step may miss its deadline."""
    update = Learner.update

    def slow_update(*arguments: Any, **options: Any) -> dict[str, float]:
        time.sleep(update_s)
        return update(*arguments, **options)

    patch.setattr(Learner, "update", slow_update)
    words = flags("Slow", overlap, "--env-arg", f"most_s={most_s}", updates=3, lag=2, step_seconds=deadline_s)
    lines = metrics(train_run(*words, out=out))
    assert [line["episodes/errored"] for line in lines] == [0, 0, 0]
    assert lines[-1]["lag/max"] > 0


@pytest.mark.parametrize("overlap", ["--overlap", "--no-overlap"])
def test_no_step_pays_for_an_update_that_is_longer_than_its_deadline(
    overlap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check_slow_steps(0.2, 1.5, 2.0, overlap, tmp_path / "run", monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("overlap", ["--overlap", "--no-overlap"])
def test_no_step_pays_for_updates_of_ten_seconds(overlap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_slow_steps(1.5, 6.0, 10.0, overlap, tmp_path / "run", monkeypatch)


def test_on_a_cpu_it_has_to_be_asked_for_and_the_choice_is_recorded(tmp_path: Path) -> None:
    for name, more in (("default", []), ("on", ["--overlap"])):
        out = train_run(*flags("Talk", *more, updates=1, lag=1), out=tmp_path / name)
        config = tomllib.loads((out / "config.toml").read_text())
        assert config["overlap"] is (name == "on")
        assert ("overlap" in config["derived"]) is (name == "default")


def test_without_a_lag_there_is_nothing_to_overlap(tmp_path: Path) -> None:
    result = train(*flags("Talk", "--overlap"), "--out", str(tmp_path / "run"))
    assert result.code == 2
    assert "--overlap: with --lag 0 sampling waits for the learner; add --lag 1 or more" in result.err
