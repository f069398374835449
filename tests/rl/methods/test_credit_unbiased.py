"""What credit is worth on average, added up exactly: which estimators have the true gradient, and how others miss it."""

from __future__ import annotations

from functools import cache, partial
from math import comb

import numpy as np
import pytest

from rl.methods import recipe as recipes
from rl.methods.estimators import turn_table
from rl.methods.parts import baseline, credit, scale
from rl.methods.recipe import Recipe
from tests.support.batches import make_group
from tests.support.enumerable import Enumerable, History, make_trajectory

N = 3
LOO, RAW_LOO = baseline.leave_one_out, partial(baseline.leave_one_out, singleton="raw")
RAW_MEAN = partial(baseline.group_mean, singleton="raw")


def wander(history: History) -> tuple[float, bool]:
    """Up to three turns of three replies; reply 0 ends the episode. Every turn is paid something of its own."""
    worth = ((sum((i + 2) ** (reply + 1) for i, reply in enumerate(history)) * 7) % 11) / 5 - 1
    return worth, history[-1] == 0 or len(history) == 3


@cache
def walk() -> Enumerable:
    return Enumerable(wander, 3, seed=1, spread=0.7)


def turn_wise(base: object, among: str = "members", **options: object) -> Recipe:
    return Recipe(credit=partial(credit.turn_returns, among=among, **options), baseline=base)


def close(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, atol=1e-10))


def off_course(result: np.ndarray, true: np.ndarray) -> float:
    """How much of `found` points elsewhere than `true`: the sine of their angle."""
    cosine = result @ true / np.linalg.norm(result) / np.linalg.norm(true)
    return float(np.sqrt(max(0.0, 1 - cosine**2)))


@pytest.mark.parametrize(
    "recipe, factor",
    [
        (Recipe(baseline=baseline.none), 1.0),
        (Recipe(baseline=LOO), 1.0),
        (Recipe(baseline=baseline.group_mean), 1 - 1 / N),
        (turn_wise(baseline.none, "alive"), 1.0),
        (turn_wise(LOO), 1.0),
        (turn_wise(LOO, "padded"), 1.0),
        (turn_wise(RAW_LOO, "alive"), 1.0),
        (turn_wise(baseline.group_mean), 1 - 1 / N),
        (turn_wise(baseline.group_mean, "padded"), 1 - 1 / N),
        (Recipe(credit=credit.shared_prefix, baseline=LOO), 1.0),
    ],
    ids=[
        *("reinforce", "rloo", "mean", "turns", "turns loo", "padded loo", "alive loo", "turns mean", "padded mean"),
        "shared loo",
    ],
)
def test_these_have_the_true_gradient_times_one_number(recipe: Recipe, factor: float) -> None:
    assert close(walk().expected(recipe, N), factor * walk().gradient())


def share(reached: float, of: dict[int, float]) -> float:
    """The mean of `of[n]` over the number `n` of members at a place that one of them has reached."""
    return sum(comb(N - 1, m) * reached**m * (1 - reached) ** (N - 1 - m) * of[m + 1] for m in range(N))


@pytest.mark.parametrize(
    "base, of",
    [
        (RAW_MEAN, {1: 1.0, 2: 1 / 2, 3: 2 / 3}),
        (baseline.group_mean, {1: 0.0, 2: 1 / 2, 3: 2 / 3}),
        (LOO, {1: 0.0, 2: 1.0, 3: 1.0}),
    ],
)
def test_comparing_those_still_playing_shrinks_each_turn_by_its_own_factor(base: object, of: dict[int, float]) -> None:
    """With itself in the mean a turn keeps `1 - 1/n` of its gradient, and one that is alone keeps all or nothing."""
    true, result = walk().gradient(), walk().expected(turn_wise(base, "alive"), N)
    factors = [share(walk().still_playing(k), of) for k in range(3)]
    assert close(result, sum(factor * walk().turn(k) * true for k, factor in enumerate(factors)))
    assert len({round(factor, 6) for factor in factors}) == 3
    assert off_course(result, true) > 0.01


def test_a_state_s_own_baseline_adds_its_gradient_by_how_often_it_is_shared() -> None:
    """GiGPO with the others as baseline: the episode's gradient, and a second time where a mate stood in the state."""
    recipe = Recipe(credit=partial(credit.anchored, gamma=1.0), baseline=LOO)
    true, target = walk().gradient(), walk().gradient()
    for history, where in walk().place.items():
        target[where] += share(walk().reached(history), {1: 0.0, 2: 1.0, 3: 1.0}) * true[where]
    assert close(walk().expected(recipe, N), target)


@pytest.mark.parametrize(
    "recipe",
    [
        turn_wise(LOO, "pooled"),
        turn_wise(baseline.group_mean, "pooled", gamma=0.0),
        turn_wise(baseline.group_mean, "alive", gamma=0.0),
        Recipe(scale=scale.group_std),
    ],
    ids=["erloo", "turn_independent", "own reward", "grpo"],
)
def test_these_point_elsewhere(recipe: Recipe) -> None:
    assert off_course(walk().expected(recipe, N), walk().gradient()) > 0.01


def test_recipes_that_claim_to_be_unbiased_are() -> None:
    for name in ("rloo", "trloo"):
        assert close(walk().expected(recipes.load(name), N), walk().gradient())


def test_sharing_a_prefix_moves_nothing_within_a_group_on_policy() -> None:
    """ARPO's hard attribution and its soft one are the same sum: shared turns have the same gradient."""
    for name in ("rloo", "grpo"):
        soft = recipes.load(name)
        hard = soft.but(credit=credit.shared_prefix)
        for members in ([0, 1, 2], [3, 3, 4], [5, 6, 12]):
            played = [walk().all[m] for m in members]
            mates = make_group(*(make_trajectory(t) for t in played))
            updates = [
                sum(
                    credits @ t.scores
                    for credits, t in zip(recipe.credit([mates], recipe.normalization)[0], played, strict=True)
                )
                for recipe in (soft, hard)
            ]
            np.testing.assert_allclose(*updates, atol=1e-12)


# Law: the choice to go on keeps its price.


def two_turns(worth: float) -> Enumerable:
    """Reply 0 ends the episode with nothing; reply 1 takes a second turn, worth `worth`, where nothing is to choose."""

    def act(history: History) -> tuple[float, bool]:
        return (worth if len(history) == 2 else 0.0), history[0] == 0 or len(history) == 2

    return Enumerable(act, 2, spread=0.0)


def go_on(toy: Enumerable, recipe: Recipe) -> float:
    """The expected update of the logit of going on, for groups of 8."""
    return float(toy.expected(recipe, 8)[1])


@pytest.mark.parametrize("worth", [0.5, -0.5])
@pytest.mark.parametrize("among", ["members", "padded"])
def test_turn_wise_credit_prices_going_on(worth: float, among: str) -> None:
    toy = two_turns(worth)
    assert toy.gradient()[1] == pytest.approx(worth / 4)
    assert go_on(toy, turn_wise(baseline.group_mean, among)) == pytest.approx(7 / 8 * worth / 4)
    assert go_on(toy, turn_wise(LOO, among)) == pytest.approx(worth / 4)


@pytest.mark.parametrize("name", ["turn_grpo", "trloo", "gigpo", "igpo", "flow_grpo", "gdpo", "portool", "arpo"])
@pytest.mark.parametrize("worth", [0.5, -0.5])
def test_recipes_price_going_on(name: str, worth: float) -> None:
    assert go_on(two_turns(worth), recipes.load(name)) * np.sign(worth) > 0.05


@pytest.mark.parametrize("worth", [0.5, -0.5])
def test_comparing_single_turns_erases_the_price_of_going_on(worth: float) -> None:
    """Each turn's own reward against those still playing; alone, or summed onward as some trainers do."""
    toy = two_turns(worth)
    assert go_on(toy, turn_wise(baseline.group_mean, "alive", gamma=0.0)) == pytest.approx(0.0, abs=1e-12)

    def summed_after(groups, recipe):
        table = turn_table.from_groups(groups)
        key = turn_table.group_ids(table.turn_group, table.index)
        advantages = turn_table.compare(table.rewards, key, table.num_tokens, recipe)
        return turn_table.turns_to_tokens(groups, table, turn_table.returns_to_go(table, advantages))

    assert go_on(toy, Recipe(credit=summed_after)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("worth", [0.5, -0.5])
def test_pooling_all_single_turns_even_turns_it_around(worth: float) -> None:
    result = go_on(two_turns(worth), turn_wise(baseline.group_mean, "pooled", gamma=0.0))
    assert result * np.sign(worth) < -0.005
