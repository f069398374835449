"""What single parts of multi-turn credit do, on groups small enough to be worked out by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rl.methods import recipe as recipes
from rl.methods.estimators import multi_reward, states, turn_by_turn, turn_table
from rl.methods.parts import credit, keep, scale, score, shape
from rl.methods.recipe import Recipe
from rl.records import Group
from tests.rl.methods.test_credit_properties import flat
from tests.support.batches import ToyScorer, make_group, make_trajectory


def test_turns_are_credited_with_what_follows_them() -> None:
    group = make_group(make_trajectory((1, 0.2), (2, 0.4), (1, 1.0)), make_trajectory((1, 0.0), (1, 0.6)))
    members = Recipe(credit=partial(credit.turn_returns, gamma=0.5))
    first, second = members.credit([group], members.normalization)[0]
    # returns 0.65 0.9 1 | 0.3 0.6, which stands in the third turn too
    np.testing.assert_allclose(first, [0.175, 0.15, 0.15, 0.2])
    np.testing.assert_allclose(second, [-0.175, -0.15])
    padded = Recipe(credit=partial(credit.turn_returns, gamma=0.5, among="padded"))
    np.testing.assert_allclose(padded.credit([group], padded.normalization)[0][0], [0.175, 0.15, 0.15, 0.5])
    alive = Recipe(credit=partial(credit.turn_returns, gamma=0.5, among="alive"))
    np.testing.assert_allclose(alive.credit([group], alive.normalization)[0][0], [0.175, 0.15, 0.15, 0.0])
    better = Recipe(credit=partial(credit.turn_returns, gamma=0.0, improvement=True))
    np.testing.assert_allclose(better.credit([group], better.normalization)[0][0], [0.1, -0.2, -0.2, 0.0], atol=1e-12)


def test_a_group_has_one_unit_in_all_its_turns() -> None:
    group = make_group(make_trajectory((1, 0.0), (1, 4.0)), make_trajectory((1, 1.0), (1, 1.0)))
    recipe = recipes.load("turn_grpo")
    unit = np.std([4.0, 2.0], ddof=1)
    np.testing.assert_allclose(recipe.credit([group], recipe.normalization)[0][0], [1 / unit, 1.5 / unit], rtol=1e-5)


def test_what_shaping_took_lies_on_the_last_turn() -> None:
    group = make_group(make_trajectory((1, 0.5), (1, 0.5)), make_trajectory((1, 0.5), (1, 0.5)), rewards=[0.6, 1.0])
    recipe = Recipe(credit=partial(credit.turn_returns, gamma=0.0))
    first, second = recipe.credit([group], recipe.normalization)[0]
    np.testing.assert_allclose(np.concatenate([first, second]), [0.0, -0.2, 0.0, 0.2], atol=1e-12)


def test_a_state_met_twice_is_compared_and_one_met_once_is_not() -> None:
    """The worked example of state grouping: s0 is met five times, s4 once."""
    paths = {
        "t0": ["s0", "s1", "s2"],
        "t1": ["s0", "s1", "s3"],
        "t2": ["s0", "s4", "s1", "s2"],
        "t3": ["s0", "s0", "s5"],
    }
    members = []
    for name, places in paths.items():
        won = float(name in ("t0", "t2"))
        members.append(make_trajectory(*[(1, 0.0)] * (len(places) - 1), (1, won)))
        for turn, place in zip(members[-1].turns, places, strict=True):
            turn.state = place
    recipe = Recipe(credit=credit.anchored)
    credits = recipe.credit([make_group(*members)], recipe.normalization)[0]
    assert credits[0][0] == pytest.approx(0.5 + 0.5505, abs=1e-4)
    assert credits[2][1] == 0.5
    by_turns = recipe.but(credit=partial(credit.anchored, unit="turn"))
    assert by_turns.credit([make_group(*members)], by_turns.normalization)[0][0][0] == pytest.approx(1.0121, abs=1e-4)


def test_an_environment_without_states_or_gains_is_told_so() -> None:
    group = make_group(make_trajectory((1, 0.0), (1, 1.0)))
    group.trajectories[0].turns[1].state = ""
    with pytest.raises(ValueError, match=r"state, which 1 of 2 turns lack: the environment must give info\['state'\]"):
        credit.anchored([group], Recipe().normalization)
    with pytest.raises(ValueError, match=r"'gian' of turns, which no score part .* gives; did you mean 'gain'\?"):
        credit.information_gain([group], Recipe().normalization, gain="gian")
    group.trajectories[0].turns[0].metrics = {}
    assert turn_table.turn_signal([group], "gain").tolist() == [0.0, 0.05]


def test_a_gain_is_the_sum_of_its_stream_or_else_the_metric() -> None:
    group = make_group(make_trajectory((2, 0.0), (1, 1.0)))
    first, second = group.trajectories[0].turns
    first.streams["gain"], second.metrics = (0.25, 0.5), {"gain": 3.0}
    assert turn_table.turn_signal([group], "gain").tolist() == [0.75, 3.0]


def test_gains_count_where_outcomes_agree_and_hardly_where_they_differ() -> None:
    def told(*rewards_of: float) -> Group:
        group = make_group(*(make_trajectory((1, 0.0), (1, reward)) for reward in rewards_of))
        for gain, member in zip((0.0, 1.0, 2.0), group.trajectories, strict=True):
            member.turns[0].metrics = {"gain": gain}
        return group

    infopo, grpo = recipes.load("infopo"), recipes.load("grpo")
    tied = infopo.credit([told(1.0, 1.0, 1.0)], infopo.normalization)[0]
    half = 0.5 * 0.5 * np.sqrt(0.5)  # beta, the gate, and the standardised gain of two; the first has none
    np.testing.assert_allclose([member[0] for member in tied], [0.0, -half, half], atol=1e-5)
    assert all(member[1] == 0 for member in tied)
    differ = told(0.0, 1.0, 1.0)
    np.testing.assert_allclose(
        flat(infopo.credit([differ], infopo.normalization)), flat(grpo.credit([differ], grpo.normalization)), atol=1e-4
    )


def test_named_rewards_count_apart_and_shaping_is_one_of_them() -> None:
    """(1, 1) against (0, 0) is worth twice (1, 0) against (0, 0), which the sum's own deviation would hide."""
    pairs = [((1.0, 1.0), (0.0, 0.0)), ((1.0, 0.0), (0.0, 0.0))]
    groups = []
    for number, pair in enumerate(pairs):
        members = [make_trajectory((1, sum(parts))) for parts in pair]
        for member, (correct, form) in zip(members, pair, strict=True):
            member.turns[0].rewards = {"correct": correct, "form": form}
        groups.append(make_group(*members, number=number))
    gdpo = recipes.load("gdpo")
    first, second = ([float(tokens[0]) for tokens in credits] for credits in gdpo.credit(groups, gdpo.normalization))
    assert first[0] == pytest.approx(2 * second[0], rel=1e-5)
    heavy = gdpo.but(credit=partial(credit.decoupled, weights="form:3"))
    first, second = ([float(tokens[0]) for tokens in credits] for credits in heavy.credit(groups, heavy.normalization))
    assert first[0] == pytest.approx(4 * second[0], rel=1e-5)
    groups[1].rewards = [1.0, 0.5]
    names, table = multi_reward.reward_table(groups)
    assert names == ["correct", "form", "shaping"]
    assert table[:, 2].tolist() == [0, 0, 0, 0.5]
    with pytest.raises(ValueError, match=r"no reward is named 'corect'; did you mean 'correct'\?"):
        credit.decoupled(groups, gdpo, weights="corect:2")
    with pytest.raises(ValueError, match="are not of the form name:number"):
        credit.decoupled(groups, gdpo, weights="form:much")


def test_roles_are_compared_with_their_like() -> None:
    group = make_group(*(make_trajectory((1, reward)) for reward in (0.5, 1.0, 0.0, 0.2, 0.0, 0.0)))
    for member, (name, episode) in zip(
        group.trajectories, [("p", 0), ("s", 0), ("s", 0), ("p", 1), ("s", 1), ("s", 1)], strict=True
    ):
        member.agent, member.member = name, episode
    credits = credit.by_role([group], Recipe().normalization, per_episode="s")[0]
    np.testing.assert_allclose(np.concatenate(credits), [0.15, 0.5, -0.5, -0.15, 0.0, 0.0], atol=1e-12)
    pooled = credit.by_role([group], Recipe().normalization)[0]
    np.testing.assert_allclose(np.concatenate(pooled), [0.15, 0.75, -0.25, -0.15, -0.25, -0.25], atol=1e-12)


def test_only_the_most_varied_groups_earn_and_one_always_does() -> None:
    groups = [
        make_group(make_trajectory((1, 0.0)), make_trajectory((1, spread)), number=k)
        for k, spread in enumerate((0.1, 1.0, 0.5))
    ]
    some = Recipe(credit=partial(credit.most_varied, ratio=0.7))
    assert [bool(flat([credits]).any()) for credits in some.credit(groups, some.normalization)] == [False, True, True]
    least = Recipe(credit=partial(credit.most_varied, ratio=0.01, lowest=True))
    assert [bool(flat([credits]).any()) for credits in least.credit(groups, least.normalization)] == [
        True,
        False,
        False,
    ]


def test_of_successes_the_cleanest_are_kept() -> None:
    group = make_group(*(make_trajectory((1, 0.0), (1, float(m < 4))) for m in range(8)))
    for m in (0, 1):
        group.trajectories[m].turns[0].valid = False
    recipe = recipes.load("grpo_roc")
    credits = [float(tokens[0]) for tokens in recipe.credit([group], recipe.normalization)[0]]
    assert [m for m in range(8) if credits[m]] == [2, 3, 4, 5]
    assert credits[2] == pytest.approx(0.8660, abs=1e-4)


def test_turns_that_follow_the_expert_are_linked_and_others_stand_alone() -> None:
    group = make_group(make_trajectory((1, 1.0), (1, 1.0), (1, 0.1)), make_trajectory((1, 0.0), (1, 0.0)))
    group.trajectories[0].turns[2].metrics = {"matched": 0.0}
    recipe = Recipe(credit=partial(credit.matched_returns, gamma=0.5, episode=0.0))
    # returns 1.5 1 0.1 against 0 0; nobody else reached the third turn
    np.testing.assert_allclose(recipe.credit([group], recipe.normalization)[0][0], [0.75, 0.5, 0.0])


def test_shared_turns_earn_the_mean_and_forks_are_told_apart() -> None:
    def path(*ids: int, reward: float):
        trajectory = make_trajectory(*[(1, 0.0)] * (len(ids) - 1), (1, reward))
        for turn, one in zip(trajectory.turns, ids, strict=True):
            turn.completion = replace(turn.completion, ids=(one,))
        return trajectory

    tree = [make_group(path(1, 3, reward=1.0), path(1, 4, reward=0.0), path(2, 3, reward=0.0), path(2, 4, reward=0.0))]
    arpo, portool = recipes.load("arpo"), recipes.load("portool")
    np.testing.assert_allclose(
        flat(arpo.credit(tree, arpo.normalization)), [0.5, 1.5, 0.5, -0.5, -0.5, -0.5, -0.5, -0.5], atol=1e-5
    )
    np.testing.assert_allclose(
        flat(portool.credit(tree, portool.normalization)),
        [2.2071, 2.2071, 0.2071, -1.2071, -1.2071, -0.5, -1.2071, -0.5],
        atol=1e-4,
    )


def test_invalid_replies_cost_and_pivots_and_spreads_are_kept() -> None:
    group = make_group(make_trajectory((1, 0.0), (1, 1.0)), make_trajectory((1, 0.0)))
    group.trajectories[0].turns[0].valid = False
    assert shape.invalid_turns(group, penalty=0.25) == [0.75, 0.0]
    assert keep.pivotal(group) and not keep.pivotal(group, below=0.5)
    assert keep.spread(group, least=0.4) and not keep.spread(group, least=0.5)
    assert not keep.spread(make_group(make_trajectory((1, 1.0))), least=0.0)


def test_the_others_deviation_is_that_of_the_group_without_oneself() -> None:
    values, key = np.array([1.0, 2.0, 4.0, 9.0, 5.0, 7.0, 3.0]), np.array([0, 0, 0, 0, 1, 1, 2])
    result = scale.leave_one_out_std(np.ones(7), values, key)
    others = [np.std(np.delete(values[:4], i), ddof=1) for i in range(4)]
    np.testing.assert_allclose(result, [*(1 / np.array(others)), 1.0, 1.0, 1.0], rtol=1e-6)
    assert (scale.leave_one_out_std(np.zeros(3), np.full(3, 0.1), np.zeros(3, dtype=np.int64)) == 0).all()


def test_a_bounded_scale_measures_advantages_and_bounds_them() -> None:
    advantages, key = np.array([9.0, -1.0, -8.0, 0.0]), np.array([0, 0, 0, 1])
    unit = np.std(advantages, ddof=1)
    np.testing.assert_allclose(
        scale.bounded_std(advantages, advantages, key, high=1.0), (advantages / unit).clip(-3, 1)
    )
    assert not scale.bounded_std(np.full(4, 1e-9), advantages, key).any()


def test_similar_texts_join_the_first_cluster_they_resemble() -> None:
    texts = ["a mug 1", "a mug 2", "a bed", "a mug 1", "a mug 12"]
    assert states.cluster_similar(texts, np.zeros(5, dtype=np.int64), threshold=0.8).tolist() == [0, 0, 1, 0, 0]
    assert states.cluster_similar(texts, np.array([0, 1, 0, 0, 1]), threshold=0.8).tolist() == [0, 1, 2, 0, 1]


def test_a_trajectory_without_the_turn_that_was_updated_carries_its_ratio_on() -> None:
    moved, mask = np.log([[1.1, 1.1], [2.0, 2.0], [2.0, 2.0]]), np.array([[True, True], [True, False], [False, False]])
    first = turn_by_turn.carry_ratio(np.zeros((3, 2)), moved, mask)
    np.testing.assert_allclose(first, [1.1, 1.2, 1.0])
    np.testing.assert_allclose(turn_by_turn.carry_ratio(np.zeros((3, 2)), moved, ~mask, first), [1.1, 1.2, 1.2])


# With a critic.


def valued(*turns_of: tuple[int, float]) -> Group:
    """One trajectory whose critic sees 0.1, 0.2, ... along each turn."""
    group = make_group(make_trajectory(*turns_of))
    asyncio.run(score.value(ToyScorer(), [group]))
    return group


def targets(group: Group) -> list[float]:
    return [x for turn in group.trajectories[0].turns for x in turn.streams["returns"]]


def test_over_turns_a_reply_is_one_action_and_its_first_value_counts() -> None:
    group = valued((2, 0.0), (3, 1.0))
    recipe = Recipe(credit=partial(credit.turn_gae, gamma=0.5, lam=0.5, whiten=False))
    last = 1.0 - 0.1
    first = 0.5 * 0.1 - 0.1 + 0.25 * last
    np.testing.assert_allclose(flat(recipe.credit([group], recipe.normalization)), [first] * 2 + [last] * 3)
    np.testing.assert_allclose(targets(group), [first + 0.1] * 2 + [1.0] * 3)


def test_a_turn_without_tokens_pays_the_one_before_and_has_no_value_of_its_own() -> None:
    group = valued((2, 0.0), (0, 1.0))
    recipe = Recipe(credit=partial(credit.turn_gae, gamma=1.0, lam=1.0, whiten=False))
    np.testing.assert_allclose(flat(recipe.credit([group], recipe.normalization)), [0.9, 0.9])


def test_bilevel_advantages_run_over_turns_and_then_within_each() -> None:
    group = valued((2, 0.0), (3, 1.0))
    recipe = Recipe(credit=partial(credit.bilevel_gae, gamma_turn=0.5, whiten=False))
    # at the turns' last tokens: 1 - 0.3 and 0.5 * 0.3 - 0.2 + 0.5 * 0.7; a turn's tokens then lead to 1 and to 0.5
    np.testing.assert_allclose(flat(recipe.credit([group], recipe.normalization)), [0.4, 0.3, 0.9, 0.8, 0.7])
    np.testing.assert_allclose(targets(group), [0.5, 0.5, 1.0, 1.0, 1.0])


def test_a_turn_of_reward_0_is_a_turn() -> None:
    """Backend without anything to read between them are told apart by their turn, not by a gap or a reward."""
    group = make_group(make_trajectory((2, 0.0), (2, 1.0), context=0))
    asyncio.run(score.value(ToyScorer(), [group]))
    recipe = Recipe(credit=partial(credit.bilevel_gae, gamma_turn=0.5, whiten=False))
    # over turns: 1 - 0.2 and 0.5 * 0.2 - 0.2 + 0.5 * 0.8
    np.testing.assert_allclose(flat(recipe.credit([group], recipe.normalization)), [0.4, 0.3, 0.9, 0.8])


def test_searches_are_paid_what_they_find_less_what_they_repeat() -> None:
    group = valued((2, 0.0), (1, 1.0))
    first, second = group.trajectories[0].turns
    first.metrics, second.metrics = {"gain": 0.5, "redundancy": 0.0}, {"gain": 0.0, "redundancy": 1.0}
    recipe = Recipe(credit=partial(credit.gae_with_gain, weight=0.6, whiten=False))
    # from each token on: 0.3 - 0.6 + 1 in the first turn, 1 - 0.6 in the second
    np.testing.assert_allclose(flat(recipe.credit([group], recipe.normalization)), [0.6, 0.5, 0.3])
