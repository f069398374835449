"""Schedules: which groups an update takes, what becomes of old ones, and what comes of episodes when weights change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rl.methods.parts import keep
from rl.schedule import MODES, Schedule, with_mode
from rl.train.loop import TrainingStopped
from rl.train.scheduling.boundary import ReplyGate
from tests.rl.train.test_loop import SPEEDS, Stage
from tests.support.runs import assert_same_run, flags, metrics, rollouts, train, train_run, training_error

LENGTHS = np.random.Generator(np.random.PCG64(7)).lognormal(2.0, 1.0, 4000).astype(int) + 1


def plan(groups: int = 4, **settings: Any) -> dict[str, Any]:
    """The plan of a stage with these settings of the schedule."""
    values = with_mode(settings)
    return {"groups": groups, "schedule": Schedule(**values)}


def lengths_of_trained(updates: int, **settings: Any) -> tuple[Stage, list[int]]:
    """Run a stage whose groups take heavy-tailed numbers of rounds; return those of the groups trained on, in order."""
    stage = Stage(delay=lambda number: int(LENGTHS[number]), plan=plan(**settings)).run(updates)
    return stage, [int(LENGTHS[number]) for numbers in stage.numbers() for number in numbers]


def test_a_mode_sets_what_is_not_given_and_the_bound_follows_the_lag() -> None:
    assert with_mode({"lag": 3, "seed": 1}) == {"lag": 3, "seed": 1}
    assert with_mode({"mode": "async", "lag": 5})["max_lag"] == 20
    assert with_mode({"mode": "async"})["max_lag"] == 8
    assert with_mode({"mode": "async", "in_flight": "drain"})["in_flight"] == "drain"
    assert with_mode({"mode": "sync"}) == {"mode": "sync", **MODES["sync"]}


@pytest.mark.parametrize("mode", ["sync", "one-step-off", "pinned"])
@pytest.mark.parametrize("speed", SPEEDS)
def test_in_the_order_of_admission_nothing_depends_on_how_fast_groups_end(mode: str, speed: str) -> None:
    values = with_mode({"mode": mode})
    stage = Stage(delay=SPEEDS[speed], plan=plan(groups=2, **values)).run(6)
    assert stage.numbers() == [[2 * k, 2 * k + 1] for k in range(6)]
    assert [line["lag/max"] for line in stage.metrics] == [min(update, values["lag"]) for update in range(6)]


@pytest.mark.parametrize("settings", [{"mode": "partial"}, {"mode": "async", "max_lag": 10**6}, {"mode": "sync"}])
def test_the_lengths_that_are_trained_on_are_those_that_are_sampled(settings: dict[str, Any]) -> None:
    """Two-sample Kolmogorov-Smirnov, without the first updates, which take what ends first."""
    stage, trained = lengths_of_trained(300, **settings)
    sampled = [int(LENGTHS[number]) for number in range(stage.loop.progress.admitted)]
    assert stats.ks_2samp(trained[100:], sampled[100:]).pvalue > 0.01
    assert np.mean(trained[100:]) == pytest.approx(np.mean(sampled[100:]), rel=0.1)


def test_a_tight_bound_of_the_lag_would_favour_short_episodes_and_says_so() -> None:
    """The counterpart of the test above: what it measures does go down where groups are given up."""
    stage, trained = lengths_of_trained(300, lag=2, order="completion", max_lag=2, stale="drop")
    assert sum(line["groups/stale"] + line["groups/cancelled"] for line in stage.metrics) > 50
    assert np.mean(trained[100:]) < 0.9 * np.mean(LENGTHS[: len(trained)])


def test_the_first_updates_in_the_order_of_completion_take_short_groups() -> None:
    _, trained = lengths_of_trained(300, mode="async", max_lag=10**6)
    assert np.mean(trained[:8]) < 0.7 * np.mean(trained[100:])


@pytest.mark.parametrize("lag", [1, 2, 4])
def test_the_mean_lag_of_groups_in_the_order_of_completion_is_the_lag(lag: int) -> None:
    stage, _ = lengths_of_trained(200, lag=lag, order="completion")
    lags = [line["lag/mean"] for line in stage.metrics[20:]]
    assert np.mean(lags) == pytest.approx(lag, abs=0.1)
    assert max(line["lag/max"] for line in stage.metrics) > lag


def test_no_more_groups_are_open_than_the_schedule_allows() -> None:
    stage = Stage(delay=lambda number: int(LENGTHS[number]), plan=plan(mode="partial", over_provision=1.5))
    most, strategy = [0], stage.loop.recipe.strategy

    async def watch(runner: Any, ticket: Any) -> Any:
        progress = stage.loop.progress
        most.append(len(progress.open) + len(progress.ended))
        return await strategy(runner, ticket)

    stage.loop.recipe = stage.loop.recipe.but(strategy=watch)
    stage.run(30)
    assert max(most) == 6


@pytest.mark.parametrize("stale", ["requeue", "drop"])
def test_a_group_that_would_be_too_old_is_ended_and_its_task_is_played_again_or_not(stale: str) -> None:
    endless = 10**9
    stage = Stage(
        delay=lambda number: endless if number == 1 else 3,
        plan=plan(groups=2, lag=1, order="completion", max_lag=2, stale=stale),
    ).run(6)
    cancelled = [line["groups/cancelled"] for line in stage.metrics]
    assert cancelled == [0, 0, 1, 0, 0, 0]
    assert 1 not in [number for numbers in stage.numbers() for number in numbers]
    first = next(ticket for ticket in stage.tickets if ticket.number == 1)
    again = [ticket.number for ticket in stage.tickets if ticket.index == first.index and ticket.number > 5]
    assert bool(again) == (stale == "requeue")
    assert stage.loop.progress.history.pending[first.index] <= 1
    assert stage.loop.progress.consumed > 1  # the ticket does not hold up the count of those used up


def test_a_group_that_waits_too_long_is_used_up_without_training_on_it() -> None:
    stage = Stage(delay=lambda number: 1, plan=plan(groups=1, lag=3, order="completion", max_lag=3))
    stage.run(3)
    stage.loop.plan = stage.loop.plan.__class__(**{**vars(stage.loop.plan), **plan(groups=1, max_lag=0)})
    stage.run(5)
    assert stage.metrics[3]["groups/stale"] == 3
    assert stage.metrics[3]["lag/max"] == 0
    assert (stage.metrics[3]["groups/played"], stage.metrics[3]["groups/kept"]) == (4, 1)


def test_the_order_in_which_tickets_were_used_up_is_in_the_state() -> None:
    stage = Stage(delay=lambda number: 50 if number % 3 == 0 else 1, plan=plan(lag=2, order="completion")).run(3)
    progress, runner = stage.loop.progress, stage.loop.runner
    assert progress.used and min(progress.used) > progress.consumed
    state = progress.state_dict(runner, stage.loop.recipe)
    again = Stage(delay=stage.delay, plan=plan(lag=2, order="completion"))
    again.loop.progress.load_state_dict(state, again.loop.runner, again.loop.recipe)
    again.run(12)
    stage.run(12)
    both = sorted(number for numbers in stage.numbers()[:3] + again.numbers() for number in numbers)
    assert both == sorted(set(both)), "a ticket was trained on twice"
    assert set(range(again.loop.progress.consumed)) <= set(both), "a ticket was lost"


def test_refused_groups_are_replaced_in_the_order_of_completion_too() -> None:
    refused = {1, 2, 5}
    stage = Stage(
        lambda number: (1.0, 1.0) if number in refused else (0.0, 1.0),
        changes={"keep": keep.varied},
        plan=plan(groups=2, mode="partial"),
    ).run(4)
    assert all(line["groups/kept"] == 2 for line in stage.metrics)


def test_a_change_of_weights_that_waits_for_episodes_finds_none_in_flight() -> None:
    stage = Stage(delay=lambda number: int(LENGTHS[number]), plan=plan(lag=2, in_flight="drain"))
    at_sync = []
    stage.loop.sync_weights = lambda: at_sync.append(len(stage.loop.progress.open))
    stage.run(5)
    assert at_sync == [0] * 5


def test_a_stop_ends_the_wait_for_episodes() -> None:
    stage = Stage(delay=lambda number: 1 if number < 4 else 10**9, plan=plan(lag=1, in_flight="drain"))

    async def interrupt() -> None:
        running = asyncio.create_task(stage.loop.run(10))
        while not stage.loop.progress.consumed:
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not running.done()
        stage.loop.stopping.set()
        await asyncio.wait_for(running, 10)

    asyncio.run(interrupt())
    assert stage.loop.progress.update == 1


def test_a_closed_gate_lets_replies_end_and_none_begin() -> None:
    async def main() -> None:
        gate, stopping, log = ReplyGate(), asyncio.Event(), []

        async def reply(name: str, rounds: int) -> None:
            async with gate:
                log.append(f"{name} begins")
                for _ in range(rounds):
                    await asyncio.sleep(0)
                log.append(f"{name} ends")

        first = asyncio.create_task(reply("first", 5))
        await asyncio.sleep(0)
        draining = asyncio.create_task(gate.drain(stopping))
        await asyncio.sleep(0)
        second = asyncio.create_task(reply("second", 1))
        await asyncio.wait_for(draining, 5)
        assert log == ["first begins", "first ends"]
        gate.reopen()
        await asyncio.wait_for(asyncio.gather(first, second), 5)
        assert log[2:] == ["second begins", "second ends"]

    asyncio.run(main())


def test_nothing_kept_still_ends_a_run() -> None:
    stage = Stage(lambda number: (0.25, 0.25), changes={"keep": keep.varied}, plan=plan(groups=2, mode="partial"))
    with pytest.raises(TrainingStopped, match="of the last"):
        stage.run(1)


# With a real model

LONG = {"turn_tokens": 12, "groups": 2, "eval_episodes": 0}


def test_the_mode_sync_is_the_run_without_a_mode_bit_for_bit(tmp_path: Path) -> None:
    plain = train_run(*flags("Talk", updates=3), out=tmp_path / "plain")
    sync = train_run(*flags("Talk", updates=3, mode="sync"), out=tmp_path / "sync")
    assert_same_run(plain, sync)


def versions(out: Path, update: int) -> list[list[set[int]]]:
    """The versions of the weights that sampled each reply, by trajectory."""
    return [[set(turn["versions"]) for turn in line["turns"]] for line in rollouts(out, update)]


def test_pinned_groups_are_of_the_version_that_they_began_with(tmp_path: Path) -> None:
    out = train_run(*flags("Talk", updates=7, mode="pinned", **LONG), out=tmp_path / "run")
    for update in range(1, 8):
        for line in rollouts(out, update):
            assert {version for turn in line["turns"] for version in turn["versions"]} == {line["version"]}
    assert [line["lag/max"] for line in metrics(out)] == [0, 1, 2, 3, 3, 3, 3]
    assert {line["lag/mixed"] for line in metrics(out)} == {0}


def test_a_change_that_waits_for_replies_leaves_none_with_two_versions(tmp_path: Path) -> None:
    out = train_run(*flags("Talk", updates=6, lag=2, in_flight="drain-turns", **LONG), out=tmp_path / "run")
    replies = [reply for update in range(1, 7) for line in versions(out, update) for reply in line]
    assert {len(reply) for reply in replies} == {1}
    assert any(line["lag/mixed"] for line in metrics(out)), "no episode spans two versions, so nothing was tested"


def test_partial_replies_go_on_with_new_weights_and_can_be_resumed(tmp_path: Path) -> None:
    words = flags("Talk", mode="partial", over_provision=3, save_every=3, **LONG)
    whole = train_run(*words, "--updates", "6", out=tmp_path / "whole")
    first = train_run(*words, "--updates", "3", out=tmp_path / "first")
    assert train("--resume", "--out", str(first), "--updates", "6").code == 0
    assert_same_run(whole, first)
    assert any(line["lag/mixed"] for line in metrics(whole))


def test_the_lags_are_those_that_the_rollouts_tell(tmp_path: Path) -> None:
    out = train_run(*flags("Talk", "--no-overlap", updates=6, mode="async", **LONG), out=tmp_path / "run")
    for update, line in enumerate(metrics(out), 1):
        lines = rollouts(out, update)
        lags = {record["group"]: update - 1 - record["version"] for record in lines}
        mixed = [set().union(*of_trajectory) for of_trajectory in versions(out, update)]
        assert line["lag/mean"] == pytest.approx(sum(lags.values()) / len(lags))
        assert line["lag/max"] == max(lags.values())
        assert line["lag/oldest"] == update - 1 - min(min(one) for one in mixed)
        assert line["lag/mixed"] == pytest.approx(sum(len(one) > 1 for one in mixed) / len(mixed))


def test_old_tokens_are_masked_and_the_others_are_trained_on(tmp_path: Path) -> None:
    words = flags("Talk", updates=6, lag=1, over_provision=4, order="completion", **LONG)
    masked = train_run(*words, "--max-lag", "1", "--stale", "mask", out=tmp_path / "masked")
    plain = train_run(*words, out=tmp_path / "plain")
    assert any(line["lag/oldest"] > 1 for line in metrics(masked)), "no token was old enough to be masked"
    assert metrics(masked)[0]["loss"] == metrics(plain)[0]["loss"]
    assert metrics(masked)[-1]["loss"] != metrics(plain)[-1]["loss"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--overlap",), "--overlap: with --lag 0 sampling waits for the learner; add --lag 1 or more"),
        (("--mode", "async", "--lag", "0"), "--mode async samples ahead, which --lag 0 forbids"),
        (("--mode", "sync", "--lag", "2"), "--mode sync does not sample ahead, which --lag 2 asks for"),
        (("--lag", "100000"), "--lag 100000: must be at most 100"),
        (("--order", "completion"), "--order completion: with --lag 0 and --over-provision 1 an update takes every"),
        (("--lag", "4", "--max-lag", "2"), "--max-lag 2: below --lag 4"),
        (("--stale", "mask"), "--stale mask: nothing is too old without a bound; add --max-lag N, such as 4"),
        (("--mode", "pinned", "--engines", "2"), "--in-flight pin: old weights are kept by one engine hf in this"),
        (("--lag", "1", "--in-flight", "drain", "--max-lag", "2", "--stale", "mask"), "--stale mask: with --in-flight"),
        (("--over-provision", "0.5"), "--over-provision 0.5: must be at least 1"),
        (("--mode", "asink"), "asink"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_in_a_line(words: tuple[str, ...], message: str) -> None:
    assert message in training_error(*flags("Talk"), *words)


def test_a_resumed_run_keeps_its_schedule(tmp_path: Path) -> None:
    out = train_run(*flags("Talk", updates=1, **LONG), out=tmp_path / "run")
    error = training_error("--resume", "--out", str(out), "--mode", "partial")
    assert "cannot change in a resumed run" in error
