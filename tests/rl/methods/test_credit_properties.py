"""Laws that all credit of several turns obeys, on groups drawn at random, and where one method is another."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import numpy as np
import pytest

from rl.methods import recipe as recipes
from rl.methods.parts import baseline, credit, scale
from rl.methods.recipe import Recipe
from rl.records import Group
from tests.support.batches import make_group, make_trajectory

AMONG = ("members", "padded", "alive", "agent", "pooled")
WITHIN = {  # what a group earns depends on that group alone
    "outcome": Recipe(scale=scale.group_std),
    **{f"turns of {among}": Recipe(credit=partial(credit.turn_returns, gamma=0.9, among=among)) for among in AMONG},
    "improvement": Recipe(credit=partial(credit.turn_returns, improvement=True), scale=scale.group_std),
    "trloo": recipes.load("trloo"),
    "others' deviation": Recipe(
        credit=partial(credit.turn_returns, among="pooled"),
        baseline=baseline.leave_one_out,
        scale=scale.leave_one_out_std,
    ),
    "asymmetric": Recipe(scale=partial(scale.bounded_std, low=-1.0, high=3.0, among="group")),
    "gigpo": recipes.load("gigpo"),
    "gigpo by turns": Recipe(credit=partial(credit.anchored, unit="turn"), scale=scale.group_std),
    "gigpo alike": Recipe(credit=partial(credit.anchored, similarity=0.6)),
    "hgpo": recipes.load("hgpo"),
    "hgpo and episode": recipes.load("hgpo").but(credit=partial(credit.hierarchical, depth=4, alpha=0.0, episode=True)),
    "ui_s1": recipes.load("ui_s1"),
    "ui_s1 by turns": recipes.load("ui_s1").but(credit=partial(credit.matched_returns, unit="turn")),
    "igpo": recipes.load("igpo"),
    "igpo apart": recipes.load("igpo").but(credit=partial(credit.information_gain, among="separate", centre="rewards")),
    "igpo in its own unit": recipes.load("igpo").but(credit=partial(credit.information_gain, norm_by_std=False)),
    "arpo": recipes.load("arpo"),
    "portool": recipes.load("portool"),
    "roles": Recipe(credit=credit.by_role),
    "grpo_roc": recipes.load("grpo_roc"),
}
ACROSS = {  # some statistic runs over the whole update
    "gdpo": recipes.load("gdpo"),
    "gdpo by tokens": recipes.load("gdpo").but(credit=partial(credit.decoupled, per_token=True)),
    "infopo": recipes.load("infopo"),
    "infopo by tokens": recipes.load("infopo").but(credit=partial(credit.gated_gain, per_token=True)),
    "starpo_s": Recipe(credit=partial(credit.most_varied, ratio=0.5)),
    "seeupo": Recipe(scale=scale.bounded_std),
    "batch": Recipe(credit=credit.turn_returns, baseline=baseline.batch_mean, scale=scale.batch_std),
}
EVERY = {**WITHIN, **ACROSS}
# Turns of one trajectory are compared with each other, by design or because their states are taken for the same.
BETWEEN_TURNS = ("turns of pooled", "others' deviation", "gigpo alike", "ui_s1 by turns")
every = pytest.mark.parametrize("recipe", EVERY.values(), ids=EVERY)
within = pytest.mark.parametrize("recipe", WITHIN.values(), ids=WITHIN)


def drawn(seed: int, *, groups: int = 5, largest: int = 5) -> list[Group]:
    """Groups of 1 to 5 members with 1 to 6 turns, states that repeat, turns without tokens, some groups all equal."""
    rng = np.random.default_rng(seed)
    result = []
    for number in range(groups):
        flat = rng.random() < 0.2
        members = []
        for member in range(int(rng.integers(1, largest + 1))):
            spans = [(int(rng.integers(0, 4)), 0.0 if flat else round(float(rng.normal()), 1))]
            spans *= int(rng.integers(1, 7))
            trajectory = make_trajectory(*((n, round(r + 0.1 * k, 1)) for k, (n, r) in enumerate(spans)), rng=rng)
            trajectory.member, trajectory.agent = member, "ab"[member % 2]
            for turn in trajectory.turns:
                turn.state = f"the state is number {rng.integers(4)}"
                turn.valid = bool(rng.random() < 0.7)
                turn.rewards = {"one": turn.reward / 2, "other": turn.reward / 2}
                turn.metrics = {"gain": float(rng.normal()), "matched": float(rng.random() < 0.6), "redundancy": 0.1}
            members.append(trajectory)
        result.append(make_group(*members, number=number))
    return result


def flat(credits: list[list[np.ndarray]]) -> np.ndarray:
    return np.concatenate([tokens for per_group in credits for tokens in per_group])


@every
@pytest.mark.parametrize("seed", range(8))
def test_credit_is_one_finite_number_per_sampled_token(recipe: Recipe, seed: int) -> None:
    groups = drawn(seed)
    credits = recipe.credit(groups, recipe.normalization)
    assert np.isfinite(flat(credits)).all()
    assert [[len(tokens) for tokens in per_group] for per_group in credits] == [
        [member.num_sampled for member in group.trajectories] for group in groups
    ]


@every
def test_one_update_may_hold_no_token_or_no_turn_at_all(recipe: Recipe) -> None:
    silent = [make_group(make_trajectory((0, 1.0)), make_trajectory((0, 0.0), (0, 1.0)), number=0)]
    assert len(flat(recipe.credit(silent, recipe.normalization))) == 0
    assert flat(
        recipe.credit([make_group(make_trajectory(), make_trajectory((2, 1.0)))], recipe.normalization)
    ).shape == (2,)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("grpo_roc", "gigpo alike")])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_groups_and_members_does_not_matter(name: str, seed: int) -> None:
    """It does where the first failures are kept, and where a cluster is named by its first text."""
    recipe, groups = EVERY[name], drawn(seed)
    straight = recipe.credit(groups, recipe.normalization)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(groups))
    inner = [rng.permutation(len(group.trajectories)) for group in groups]
    moved = [make_group(*(groups[g].trajectories[m] for m in inner[g]), number=int(g)) for g in order]
    for place, per_group in enumerate(recipe.credit(moved, recipe.normalization)):
        g = order[place]
        for tokens, m in zip(per_group, inner[g], strict=True):
            np.testing.assert_allclose(tokens, straight[g][m], atol=1e-9)


@within
@pytest.mark.parametrize("seed", range(4))
def test_other_groups_however_long_change_nothing(recipe: Recipe, seed: int) -> None:
    """A longer neighbour pads every table; its padding enters no mean, no deviation and no count."""
    groups = drawn(seed)
    long = make_group(*(make_trajectory(*[(1, float(m))] * 30) for m in range(7)), number=9)
    alone = recipe.credit(groups, recipe.normalization)
    together = recipe.credit([long, *groups], recipe.normalization)[1:]
    np.testing.assert_allclose(flat(together), flat(alone), atol=1e-12)


@every
def test_observations_may_be_longer_without_any_change(recipe: Recipe) -> None:
    groups = drawn(3)
    longer = deepcopy(groups)
    for turn in (turn for played in longer for member in played.trajectories for turn in member.turns):
        turn.context = turn.context * 2
    assert np.array_equal(
        flat(recipe.credit(longer, recipe.normalization)), flat(recipe.credit(groups, recipe.normalization))
    )


SHIFTED = [name for name in WITHIN if name not in (*BETWEEN_TURNS, "improvement", "grpo_roc")]


@pytest.mark.parametrize("name", SHIFTED)
def test_a_constant_per_group_on_every_turn_changes_nothing(name: str) -> None:
    """Members have equally many turns, so that a discounted sum is shifted by the same amount at the same turn."""
    rng = np.random.default_rng(0)

    def played(*constants: float) -> list[Group]:
        result = []
        for number, constant in enumerate(constants):
            own = np.random.default_rng(number)
            spans = [[(2, round(float(own.normal()), 1) + constant) for _ in range(4)] for _ in range(3)]
            result.append(make_group(*(make_trajectory(*span) for span in spans), number=number))
        for turn in (turn for one in result for member in one.trajectories for turn in member.turns):
            turn.metrics = {"gain": turn.reward, "matched": 1.0}
        return result

    recipe = WITHIN[name]
    if name.startswith("igpo"):  # the last turn is paid the return, which moves by more than a gain does
        recipe = recipe.but(credit=partial(credit.information_gain, among="separate"))
    shifted = recipe.credit(played(*rng.normal(size=3).tolist()), recipe.normalization)
    np.testing.assert_allclose(
        flat(shifted), flat(recipe.credit(played(0.0, 0.0, 0.0), recipe.normalization)), atol=1e-6
    )


@pytest.mark.parametrize("name", [name for name in EVERY if name not in (*BETWEEN_TURNS, "batch")])
def test_a_group_of_one_and_a_group_of_equals_earn_exactly_nothing(name: str) -> None:
    same = [make_group(*(make_trajectory((2, 0.1), (1, 0.3)) for _ in range(3)), number=k) for k in range(2)]
    alone = [make_group(make_trajectory((1, 0.7), (2, 0.2)), number=2 + k) for k in range(2)]
    credits = EVERY[name].credit([*same, *alone], EVERY[name].normalization)
    if name == "igpo apart":  # a gain that comes later is worth something to turns before it
        credits = credits[:2]
    for per_group in credits:
        assert all((tokens == 0).all() for tokens in per_group)


@pytest.mark.parametrize("seed", range(3))
def test_equal_outcomes_earn_nothing_however_many_turns_they_took(seed: int) -> None:
    """An ended member stands with its last turn's return; standing with 0, it would make noise of a group of equals."""
    rng = np.random.default_rng(seed)
    spans = [[(1, 0.0)] * int(rng.integers(0, 6)) + [(1, 1.0)] for _ in range(5)]
    group = make_group(*(make_trajectory(*span) for span in spans))
    for recipe in (Recipe(credit=credit.turn_returns), recipes.load("turn_grpo"), recipes.load("trloo")):
        assert not flat(recipe.credit([group], recipe.normalization)).any()


# Identities between methods.


def outcomes_only(seed: int = 0) -> list[Group]:
    """Groups of four whose last turn alone is paid, in states told apart by turn."""
    rng = np.random.default_rng(seed)
    return [
        make_group(
            *(make_trajectory(*[(2, 0.0)] * int(rng.integers(0, 4)), (1, float(rng.random() < 0.5))) for _ in range(4)),
            number=k,
        )
        for k in range(4)
    ]


def the_same(one: Recipe, other: Recipe, groups: list[Group], times: float = 1.0) -> None:
    np.testing.assert_allclose(
        flat(one.credit(groups, one.normalization)), times * flat(other.credit(groups, other.normalization)), atol=1e-6
    )


def test_where_one_method_is_another() -> None:
    grpo, rloo, mean = recipes.load("grpo"), recipes.load("rloo"), Recipe()
    groups = outcomes_only()
    the_same(recipes.load("turn_grpo"), grpo, groups)
    the_same(recipes.load("trloo"), rloo, groups)
    the_same(mean.but(baseline=baseline.leave_one_out), mean, groups, times=4 / 3)
    the_same(recipes.load("gigpo").but(credit=partial(credit.anchored, omega=0.0)), mean, groups)
    the_same(recipes.load("infopo").but(credit=partial(credit.gated_gain, beta=0.0)), grpo, groups)
    at_state = Recipe(credit=partial(credit.hierarchical, depth=0))
    both = Recipe(credit=credit.anchored)
    np.testing.assert_allclose(
        flat(at_state.credit(groups, at_state.normalization)) + flat(mean.credit(groups, mean.normalization)),
        flat(both.credit(groups, both.normalization)),
        atol=1e-5,  # weights are normalised with 1e-6 to spare
    )
    one_turn = [make_group(*(make_trajectory((2, float(m % 3))) for m in range(4)), number=k) for k in range(2)]
    the_same(recipes.load("trloo"), rloo, one_turn)
    the_same(recipes.load("at_grpo"), grpo, one_turn)


def test_gdpo_of_one_reward_is_grpo_standardised_over_the_update() -> None:
    groups, gdpo, grpo = outcomes_only(1), recipes.load("gdpo"), recipes.load("grpo")
    each = np.array([tokens[0] for per_group in grpo.credit(groups, grpo.normalization) for tokens in per_group])
    result = np.array([tokens[0] for per_group in gdpo.credit(groups, gdpo.normalization) for tokens in per_group])
    np.testing.assert_allclose(result, (each - each.mean()) / each.std(ddof=1), atol=1e-5)


def test_igpo_without_gains_discounts_the_standardised_outcome_from_turn_to_turn() -> None:
    group = make_group(
        make_trajectory((1, 0.0), (1, 0.0), (1, 1.0)), make_trajectory((1, 0.0)), make_trajectory((1, 0.0), (1, 0.5))
    )
    for turn in (turn for member in group.trajectories for turn in member.turns):
        turn.metrics = {"gain": 0.0}
    part = partial(credit.information_gain, among="separate", centre="rewards", gamma=0.5)
    first, second, third = part([group], Recipe().normalization)[0]
    high = 0.5 / np.std([1.0, 0.0, 0.5])
    np.testing.assert_allclose(first, [high / 4, high / 2, high], rtol=1e-5)
    np.testing.assert_allclose(second, [-high], rtol=1e-5)
    assert (third == 0).all()
