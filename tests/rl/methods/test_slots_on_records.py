"""The slots that choose tasks, keep and shape groups, and ask models for numbers; and the learning rate."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from rl.methods import recipe as recipes
from rl.methods.parts import keep, sampler, schedule, score, shape
from tests.support.batches import ToyScorer, make_group, make_trajectory
from tests.support.paths import ROOT


def test_the_length_penalty_grows_over_the_cache_and_stops_at_its_factor() -> None:
    group = make_group(*(make_trajectory((n, 1.0)) for n in (16, 18, 20, 30)))
    assert shape.soft_overlong(group, budget=20, cache=4) == [1.0, 0.5, 0.0, 0.0]
    assert shape.soft_overlong(group, budget=20, cache=4, factor=2.0) == [1.0, 0.0, -1.0, -1.0]


def test_varied_reads_task_rewards_and_not_shaped_ones() -> None:
    assert keep.varied(make_group(make_trajectory((1, 0.0)), make_trajectory((1, 1.0)), rewards=[0.5, 0.5]))
    assert not keep.varied(make_group(make_trajectory((1, 1.0)), make_trajectory((9, 1.0)), rewards=[1.0, 0.5]))
    assert not keep.varied(make_group(make_trajectory((1, 1.0))))


def test_any_group_drops_only_one_whose_members_all_failed() -> None:
    assert keep.any_group(make_group(make_trajectory((1, 1.0))))
    assert not keep.any_group(make_group())


def test_scores_fill_one_number_per_sampled_token_and_refuse_another_count() -> None:
    group = make_group(make_trajectory((2, 0.0), (1, 1.0)), make_trajectory((3, 0.0)))
    asyncio.run(score.value(ToyScorer(), [group]))
    assert [len(turn.streams["value"]) for t in group.trajectories for turn in t.turns] == [2, 1, 3]

    class Short(ToyScorer):
        def values(self, trajectories):
            return [[(0.0,) for _ in t.turns] for t in trajectories]

    with pytest.raises(ValueError, match="stream 'value': 1 numbers for 2 tokens"):
        asyncio.run(score.value(Short(), [group]))


def test_an_epoch_of_shuffled_tasks_holds_each_task_once_in_a_new_order() -> None:
    history, rng = sampler.History(7), np.random.default_rng(3)
    epochs = [[history.draw(sampler.shuffled, rng) for _ in range(7)] for _ in range(3)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_history_continues_where_it_was_saved() -> None:
    history, rng = sampler.History(5), np.random.default_rng(1)
    history.record(history.draw(sampler.shuffled, rng), 0.5)
    saved, state = history.state_dict(), rng.bit_generator.state
    going_on = [history.draw(sampler.shuffled, rng) for _ in range(9)]
    restored, rng = sampler.History(5), np.random.default_rng(0)
    restored.load_state_dict(saved)
    rng.bit_generator.state = state
    assert [restored.draw(sampler.shuffled, rng) for _ in range(9)] == going_on
    assert sum(restored.visits(i) for i in range(5)) == 1
    with pytest.raises(ValueError, match="5 tasks, but there are 6"):
        sampler.History(6).load_state_dict(saved)


def test_skip_solved_draws_a_solved_task_as_often_as_told() -> None:
    history, rng = sampler.History(2), np.random.default_rng(0)
    history.record(0, 1.0)
    draws = [history.draw(partial(sampler.skip_solved, keep=0.25), rng) for _ in range(2000)]
    assert draws.count(0) / 2000 == pytest.approx(0.2, abs=0.03)
    assert {sampler.skip_solved(history, rng, keep=0.0) for _ in range(50)} == {1}
    history.record(1, 1.0)
    assert {sampler.skip_solved(history, rng, keep=0.0) for _ in range(50)} == {0, 1}
    history.record(0, 0.5)  # unlearned again
    assert {sampler.skip_solved(history, rng, keep=0.0) for _ in range(50)} == {0}


def weaknesses(level: list[float], draws: int) -> tuple[sampler.History, list[int]]:
    """Draw from kinds of tasks on each of which a policy has a success of its own; how often each kind was drawn."""
    history, rng = sampler.History(len(level) * 1000), np.random.default_rng(0)
    counts = [0] * len(level)
    for _ in range(draws):
        index = history.draw(partial(sampler.in_reach, kinds=len(level)), rng)
        counts[index % len(level)] += 1
        history.record(index, float(rng.binomial(8, level[index % len(level)]) / 8))
    return history, counts


def test_in_reach_draws_the_kinds_that_are_solved_now_and_then() -> None:
    _, counts = weaknesses([0.02, 0.4, 0.95], 1000)
    assert counts[1] > 700 and min(counts) > 30
    _, counts = weaknesses([0.0, 1.0, 0.05], 900)  # none is: all alike
    assert max(counts) < 400
    history, counts = weaknesses([0.4, 1.0], 400)
    for index in range(0, 200, 2):
        history.record(index, 1.0)  # the first kind is learned
    for index in range(1, 200, 2):
        history.record(index, 0.5)  # and the second unlearned
    rng = np.random.default_rng(1)
    assert sum(sampler.in_reach(history, rng, kinds=2, window=100) % 2 for _ in range(200)) > 100


def test_in_reach_knows_tasks_of_uneven_numbers_and_goes_on_from_a_checkpoint() -> None:
    rng = np.random.default_rng(0)
    assert {sampler.in_reach(sampler.History(5), rng, kinds=3) for _ in range(200)} == set(range(5))
    assert {sampler.in_reach(sampler.History(2), rng, kinds=9) for _ in range(50)} == {0, 1}
    history, _ = weaknesses([0.02, 0.4, 0.95], 100)
    restored = sampler.History(3000)
    restored.load_state_dict(json.loads(json.dumps(history.state_dict())))
    draws = [
        [sampler.in_reach(one, rng, kinds=3) for _ in range(50)]
        for one, rng in ((history, np.random.default_rng(2)), (restored, np.random.default_rng(2)))
    ]
    assert draws[0] == draws[1]


def test_uniform_draws_every_task_and_depends_on_the_generator_only() -> None:
    draws = [
        [sampler.uniform(sampler.History(4), rng) for _ in range(40)] for rng in map(np.random.default_rng, (5, 5))
    ]
    assert draws[0] == draws[1] and set(draws[0]) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "part, multipliers",
    [
        (schedule.constant, [1, 1, 1, 1, 1]),
        (partial(schedule.constant, warmup=1), [0.5, 1, 1, 1, 1]),
        (schedule.linear, [1, 0.75, 0.5, 0.25, 0]),
        (partial(schedule.linear, warmup=2, floor=0.2), [1 / 3, 2 / 3, 1, 0.6, 0.2]),
        (schedule.cosine, [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0]),
        (partial(schedule.linear, over=2), [1, 0.5, 0, 0, 0]),
        (partial(schedule.cosine, over=2, floor=0.5), [1, 0.75, 0.5, 0.5, 0.5]),
    ],
)
def test_the_learning_rate_goes_like_this_over_four_updates_and_after(part, multipliers) -> None:
    np.testing.assert_allclose([part(update, 4) for update in range(5)], multipliers, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, _ in recipes.catalogue()])
def test_no_recipe_has_a_learning_rate_that_depends_on_the_length_of_the_run(name: str) -> None:
    schedules = {total: recipes.load(name).schedule for total in (20, 40, 100_000)}
    rates = [[part(update, total) for update in range(40)] for total, part in schedules.items()]
    assert rates[0] == rates[1] == rates[2]


def test_slots_that_work_on_records_import_no_torch() -> None:
    modules = ["sampler", "strategy", "score", "shape", "keep", "credit", "baseline", "scale", "schedule"]
    code = f"import sys; from rl.methods.parts import {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
