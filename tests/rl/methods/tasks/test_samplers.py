"""Samplers with memory: whom they draw, what they remember, and that they go on where they were saved."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from rl.methods.estimators.tasks import difficulty
from rl.methods.options import PartError
from rl.methods.parts import keep, sampler
from rl.methods.parts.sampler import History
from tests.support.batches import make_group, make_trajectory

REMEMBERING = [sampler.skip_settled, sampler.variance_bandit, sampler.variance_bank]


def play(history: History, task: int, successes: int, size: int = 8, **details: Any) -> None:
    """A group of this task ends."""
    is_varied = 0 < successes < size
    history.record(task, successes / size, successes=successes, size=size, is_varied=is_varied, **details)
    history.close(task)


def draws_of(part: Any, history: History, count: int, seed: int = 0) -> Counter[int]:
    """How often each task is drawn, when each draw ends before the next one without a result."""
    rng, counts = np.random.default_rng(seed), Counter[int]()
    for _ in range(count):
        index = history.draw(part, rng)
        history.close(index)
        counts[index] += 1
    return counts


def run(part: Any, updates: int, *, num_tasks: int = 60, seed: int = 0) -> tuple[History, list[int]]:
    """A simulated run: success rates spread over the tasks, eight groups of eight at a time, none of which changes."""
    history, rng, drawn = History(num_tasks), np.random.default_rng(seed), []
    rates = np.linspace(0.0, 1.0, num_tasks)
    for update in range(updates):
        batch = [history.draw(part, rng) for _ in range(8)]
        for task in batch:
            successes = int(rng.binomial(8, rates[task]))
            play(history, task, successes, update=update, is_kept=0 < successes < 8)
        drawn += batch
    return history, drawn


def test_greso_skips_by_the_length_of_the_run_without_variance() -> None:
    chances = [difficulty.chance_of_drawing(0.5, run) for run in range(9)]
    np.testing.assert_allclose(1 - np.array(chances), [0, 0.5, 0.75, 0.875, 0.9375, 0.96875, 0.984375, 0.99, 0.99])
    part, history = sampler.skip_settled(), History(3)
    for update in range(3):
        play(history, 0, 8, update=update)
        play(history, 1, 0, update=update)
    assert part.chance(0) == 1  # nothing was read yet
    draws_of(part, history, 1)
    assert [part.chance(task) for task in range(3)] == [0.5**3, 0.5**3, 1]
    play(history, 0, 4)
    draws_of(part, history, 1)
    assert part.chance(0) == 1
    play(history, 1, 8)  # of the other kind: the run begins anew
    draws_of(part, history, 1)
    assert part.chance(1) == 0.5


def test_greso_moves_both_chances_towards_their_targets_once_all_tasks_were_drawn() -> None:
    part, history = sampler.skip_settled(pace=0.01), History(2)
    for update in range(4):
        for task, successes in ((0, 8), (1, 0)):
            play(history, task, successes, update=update)
    history.draws += 1
    draws_of(part, history, 1)
    # Of every update half was solved and half failed, which is more than a twelfth and a sixth.
    assert part.state_dict()["base"] == pytest.approx({"easy": 0.5 - 3 * 0.01, "hard": 0.5 - 3 * 0.01})
    for update in range(4, 8):
        play(history, 0, 4, update=update)
    draws_of(part, history, 1)
    assert part.state_dict()["base"] == pytest.approx({"easy": 0.5 - 0.04 + 0.03, "hard": 0.5 - 0.04 + 0.03})


def test_a_task_that_is_skipped_stays_within_reach() -> None:
    part, history = sampler.skip_settled(), History(2)
    for update in range(9):
        play(history, 0, 8, update=update)
    counts = draws_of(part, history, 3000)
    assert 0.2 * 0.01 * 3000 < counts[0] < 3 * 0.01 * 3000


def test_vade_believes_what_it_saw_and_forgets_it() -> None:
    part, history = sampler.variance_bandit(keep=0.9, renew=0.5), History(3)
    play(history, 0, 6, update=0)
    draws_of(part, history, 1)
    assert part.belief(0) == (7, 3)
    play(history, 1, 0, update=2)
    draws_of(part, history, 1)
    assert part.belief(0) == pytest.approx((1 + 0.81 * 6, 1 + 0.81 * 2))
    play(history, 0, 8, update=2, lag=1)
    draws_of(part, history, 1)
    assert part.belief(0) == pytest.approx((1 + 0.5 * 0.81 * 6 + 0.9 * 8, 1 + 0.5 * 0.81 * 2))


def test_vade_draws_no_task_twice_while_it_is_being_played() -> None:
    part, history, rng = sampler.variance_bandit(), History(6), np.random.default_rng(0)
    assert sorted(history.draw(part, rng) for _ in range(6)) == list(range(6))
    assert 0 <= history.draw(part, rng) < 6  # all are being played


@pytest.mark.parametrize("part", [sampler.variance_bandit(), sampler.near_target], ids=["vade", "dots"])
def test_tasks_of_middling_difficulty_are_drawn_more_often(part: Any) -> None:
    history, draws = run(part, 80)
    late = np.array(draws[320:]) / 59
    assert (abs(late - 0.5) < 0.25).mean() > 0.6  # of all tasks it is half
    assert history.coverage()["tasks/coverage"] > 0.3


def test_greso_makes_more_groups_vary_than_a_plain_order() -> None:
    def share(part: Any) -> float:
        history, _ = run(part, 120)
        return float(np.mean([result.is_varied for result in history.since(480)]))

    assert share(sampler.skip_settled()) > share(sampler.shuffled) + 0.03


def test_vcrl_replaces_a_refused_group_by_the_best_task_of_its_bank() -> None:
    part, history = sampler.variance_bank(replays=2), History(50)
    for task, successes in ((3, 4), (7, 2), (9, 0)):
        play(history, task, successes, is_kept=successes > 0)
    assert [next(iter(draws_of(part, history, 1))) for _ in range(1)] == [3]
    play(history, 20, 0, is_kept=False)
    play(history, 21, 0, is_kept=False)
    rng = np.random.default_rng(1)
    assert [history.draw(part, rng), history.draw(part, rng)] == [3, 7]  # the first is now being played
    play(history, 22, 0, is_kept=False)
    history.close(3), history.close(7)
    assert history.draw(part, rng) == 7  # the first was drawn twice from the bank
    assert part.state_dict()["bank"] == []


def test_vcrl_draws_a_task_from_its_bank_no_more_than_it_says() -> None:
    """Also where the groups of these draws are kept; the task comes back after a draw of the ordinary kind."""
    part, history, rng = sampler.variance_bank(replays=2), History(2), np.random.default_rng(0)
    play(history, 0, 4, is_kept=True)

    def draw() -> int:
        play(history, 1, 0, is_kept=False)  # there is a gap to fill
        index = history.draw(part, rng)
        play(history, index, 4 * (index == 0), is_kept=index == 0)
        return index

    assert [draw(), draw()] == [0, 0] and part.state_dict()["barred"] == [0]
    restored = sampler.variance_bank(replays=2)
    restored.load_state_dict(json.loads(json.dumps(part.state_dict())))
    assert restored.state_dict() == part.state_dict()
    while draw() != 0:
        assert part.state_dict()["barred"] == [0] and part.state_dict()["bank"] == []
    assert part.state_dict()["barred"] == []  # that was the ordinary kind
    assert [draw(), draw()] == [0, 0] and part.state_dict()["barred"] == [0]


def test_vcrl_moves_priorities_by_a_tenth() -> None:
    part, history = sampler.variance_bank(), History(5)
    play(history, 0, 4)
    play(history, 0, 8)
    draws_of(part, history, 1)
    assert part.state_dict()["bank"] == [[0, pytest.approx(0.9 * 1.0 + 0.1 * 0.0), 0]]


def test_vcrl_keeps_groups_by_their_share_of_the_largest_variance() -> None:
    assert [difficulty.variance_share(k, 8) for k in range(5)] == pytest.approx([0, 0.4375, 0.75, 0.9375, 1])
    assert [difficulty.variance_share(k, 5) for k in range(6)] == pytest.approx([0, 2 / 3, 1, 1, 2 / 3, 0])

    def group(successes: int) -> Any:
        made = make_group(*(make_trajectory((1, float(k < successes))) for k in range(8)))
        for number, trajectory in enumerate(made.trajectories):
            trajectory.success = number < successes
        return made

    assert [keep.worthwhile(group(k), until=0) for k in range(9)] == [k in (3, 4, 5) for k in range(9)]
    assert [keep.worthwhile(group(k), until=1) for k in range(9)] == [k not in (0, 8) for k in range(9)]


def test_the_pool_of_medium_tasks_is_drawn_first() -> None:
    history = History(4)
    for task, successes in ((0, 0), (1, 4), (2, 8)):
        play(history, task, successes)
    counts = draws_of(sampler.difficulty_pool, history, 4000)
    np.testing.assert_allclose([counts[task] / 4000 for task in range(4)], np.array([0.2, 1, 0.2, 1]) / 2.4, atol=0.03)


@pytest.mark.parametrize("make", REMEMBERING)
def test_a_sampler_goes_on_where_it_was_saved(make: Any) -> None:
    def go(part: Any, history: History, rng: np.random.Generator, updates: range) -> list[int]:
        draws = []
        for update in updates:
            batch = [history.draw(part, rng) for _ in range(4)]
            for task in batch:
                successes = int(rng.binomial(8, task / 20))
                play(history, task, successes, update=update, is_kept=0 < successes < 8)
            draws += batch
        return draws

    history, part, rng = History(20), make(), np.random.default_rng(0)
    go(part, history, rng, range(12))
    state = json.loads(json.dumps([history.state_dict(), part.state_dict()]))
    resumed, again, same_rng = History(20), make(), np.random.default_rng(0)
    resumed.load_state_dict(state[0])
    again.load_state_dict(state[1])
    same_rng.bit_generator.state = rng.bit_generator.state
    assert go(again, resumed, same_rng, range(12, 24)) == go(part, history, rng, range(12, 24))


def test_coverage_counts_all_draws_and_the_latest() -> None:
    history, rng = History(2000), np.random.default_rng(0)
    for _ in range(500):
        history.draw(lambda history, rng: 5, rng)
    for k in range(1000):
        history.draw(lambda history, rng, k=k: 10 + k % 100, rng)
    assert history.coverage() == {"tasks/coverage": 101 / 2000, "tasks/recent": 0.1}


def test_a_history_of_an_older_checkpoint_is_read() -> None:
    history = History(2)
    history.load_state_dict({"num_tasks": 2, "draws": [1, 0], "rewards": {"0": [0.5]}})
    assert history.visits(0) == 1 and history.since(0) == [] and not history.pending.any()


@pytest.mark.parametrize("index", [-1, 3, 1.0, None, True])
def test_a_draw_that_is_no_task_names_the_sampler(index: Any) -> None:
    def mine(history: History, rng: np.random.Generator) -> Any:
        return index

    history = History(3)
    with pytest.raises(PartError, match=r"^sampler mine: returned .*, expected the index of a task, 0 to .* is 2$"):
        history.draw(mine, np.random.default_rng(0))
    assert not history.draws.any() and not history.pending.any()
