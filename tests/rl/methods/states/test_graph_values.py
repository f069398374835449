"""Values merged over shared states: exact gradients where the state is Markov, what is lost where it is not."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

from rl.methods import recipe as recipes
from rl.methods.estimators import states
from rl.methods.parts import credit, scale
from rl.methods.recipe import Recipe
from tests.support.batches import make_group
from tests.support.enumerable import Enumerable, History, make_trajectory

N = 3


def position(history: History) -> tuple[int, int]:
    """The number of replies and their sum: different histories lead to the same place."""
    return len(history), sum(history)


def step(history: History) -> tuple[float, bool]:
    """Three turns at most, paid by where they lead; a reply of 1 in place (1, 1) ends the episode."""
    turns, place = position(history)
    worth = ((turns * 5 + place * 3) % 7) / 3 - 1
    return worth, turns == 3 or (place == 2 and turns == 2)


@cache
def merging() -> Enumerable:
    """A world whose policy and whose states know the place and the turn, not the way there."""
    return Enumerable(step, 2, seed=3, spread=0.8, view=position, state=position)


@cache
def forgetful() -> Enumerable:
    """The same rewards, but the state tells the turn only."""
    return Enumerable(step, 2, seed=3, spread=0.8, view=position, state=len)


@cache
def remembering() -> Enumerable:
    """States as in `merging`, but the policy acts on all of its past replies."""
    return Enumerable(step, 2, seed=1, spread=2.0, state=position)


def graph(**options: object) -> Recipe:
    return Recipe(credit=partial(credit.graph_values, **options), scale=scale.none)


def sine(update: np.ndarray, true: np.ndarray) -> float:
    cosine = update @ true / np.linalg.norm(update) / np.linalg.norm(true)
    return float(np.sqrt(max(0.0, 1 - cosine**2)))


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 0.0},
        {"lam": 0.5, "kappa": 0.0},
        {"lam": 0.0, "kappa": 0.0},
        {"lam": 1.0, "kappa": 5.0},
        {"lam": 0.0, "weigh": True},
        {"lam": 0.5, "kappa": 0.0, "weigh": True},
    ],
    ids=str,
)
def test_where_the_state_is_markov_the_expected_update_is_the_gradient(options: dict) -> None:
    np.testing.assert_allclose(merging().expected(graph(**options), N), merging().gradient(), atol=1e-10)


def test_merged_values_vary_less_than_returns_and_lambda_lies_between() -> None:
    variance = [merging().moments(graph(lam=lam), N)[1] for lam in (0.0, 0.5, 1.0)]
    rloo = merging().moments(recipes.load("rloo"), N)[1]
    assert variance[0] < variance[1] < variance[2] < rloo


@pytest.mark.parametrize("world", [forgetful, remembering])
def test_a_state_that_leaves_something_out_biases_merged_values_and_no_own_return(world) -> None:
    true = world().gradient()
    away = [sine(world().expected(graph(lam=lam), N), true) for lam in (0.0, 0.5, 1.0)]
    assert away[0] > away[1] > 0.003
    np.testing.assert_allclose(world().expected(graph(lam=1.0), N), true, atol=1e-10)


def test_a_declared_state_has_its_own_lambda() -> None:
    declared = merging().moments(graph(lam=0.7, markov_lam=0.0), N, markov=True)
    undeclared = merging().moments(graph(lam=0.0), N)
    assert declared[1] == pytest.approx(undeclared[1], rel=1e-12)
    assert declared[1] < merging().moments(graph(lam=0.7), N)[1]


def played(*rows: tuple[tuple[str, float], ...]) -> list[np.ndarray]:
    """The credit, by default options without shrinkage, of trajectories given as states and rewards of their turns."""
    world = merging()
    template = world.all[0]
    members = []
    for row in rows:
        n = len(row)
        episode = type(template)(
            (0,) * n, 1.0, [r for _, r in row], np.zeros((n, 1)), [0.0] * n, [0.5] * n, [s for s, _ in row]
        )
        members.append(make_trajectory(episode))
    recipe = graph(lam=0.0, kappa=0.0)
    return recipe.credit([make_group(*members)], recipe.normalization)[0]


def test_a_turn_earns_what_all_members_get_from_where_it_led_to() -> None:
    """Both reach M, where one wins by luck; a third goes to L and loses. At the start they are worth 1/2, 1/2 and 0."""
    wins, loses, other = played(
        (("S", 0.0), ("M", 1.0)),
        (("S", 0.0), ("M", 0.0)),
        (("S", 0.0), ("L", 0.0)),
    )
    assert wins.tolist() == pytest.approx([1 / 2 - (1 / 2 + 0) / 2, 1.0])
    assert loses.tolist() == pytest.approx([1 / 2 - (1 / 2 + 0) / 2, -1.0])
    assert other.tolist() == pytest.approx([0 - 1 / 2, 0 - (1 + 0) / 2])  # alone in L: against the others' returns


def test_without_shared_states_it_is_leave_one_out() -> None:
    wins, loses = played((("A", 0.0), ("B", 1.0)), (("C", 0.0), ("D", 0.0)))
    assert wins.tolist() == [1.0, 1.0]
    assert loses.tolist() == [-1.0, -1.0]


def test_without_the_clock_a_cycle_settles_at_the_mean_of_what_follows() -> None:
    """One walks A B A B, another A B: with value 1 or 0 after B, every turn is worth a share of the win."""
    place = np.array([0, 1, 0, 1, 0, 1])
    following = np.array([1, 2, 3, -1, 5, -1])
    rewards = np.array([0.0, 0, 0, 1, 0, 0])
    returns = np.array([1.0, 1, 1, 1, 0, 0])
    worth = states.merge_values(rewards, returns, place, following, lam=np.zeros(6), gamma=1.0, sweeps=200)
    assert worth.tolist() == pytest.approx([0.5, 0.5, 0.5, 1.0, 0.5, 0.0], abs=1e-6)


def test_estimated_shrinkage_trusts_states_that_settle_the_outcome() -> None:
    rng = np.random.default_rng(0)
    place = rng.integers(8, size=400)
    trajectory, index = np.arange(400), np.zeros(400, dtype=np.int64)
    settled = (place % 2).astype(float)
    random = rng.integers(2, size=400).astype(float)
    base = np.full(400, 0.5)
    assert states.shrinkage(settled, base, place, trajectory, index).max() < 0.01
    assert states.shrinkage(random, base, place, trajectory, index).min() > 20


def test_the_gate_takes_from_lonely_states_only() -> None:
    plain, gated = (
        recipe.credit(groups, recipe.normalization)[0]
        for recipe in (graph(lam=0.0, kappa=1.0), graph(lam=0.0, kappa=1.0, gate=True))
        for groups in [[make_group(*(make_trajectory(merging().all[m]) for m in (0, 1, 2)))]]
    )
    for before, after in zip(plain, gated, strict=True):
        ratio = after[before != 0] / before[before != 0]
        assert ((ratio >= 1 / 2) & (ratio <= 3 / 4)).all()
