"""What turns earn that forks share: once or as often as they are shared, by tree, by prefix, by value."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from envs.types import Stop
from rl.methods import recipe as recipes
from rl.methods.estimators import trees
from rl.methods.parts import baseline, credit, scale
from rl.methods.parts.strategy import random_forks
from rl.methods.recipe import Recipe
from rl.records import Completion, Fork, Group, Trajectory, Turn
from tests.support.enumerable import Enumerable, History
from tests.support.enumerable import make_trajectory as record
from tests.support.episodes import make_ticket
from tests.support.trees import play_tree

CENTRED = Recipe(baseline=baseline.group_mean, scale=scale.none)


def tree(*members: tuple[str, float, Fork | None], errored: tuple = ()) -> Group:
    """Members whose replies are letters; the last one is paid."""

    def played(number: int, letters: str, reward: float, fork: Fork | None) -> Trajectory:
        turns = [Turn((9,), Completion((ord(c),), (-1.0,), (-1.0,), (0,))) for c in letters]
        turns[-1].reward = reward
        return Trajectory(turns, Stop.TERMINATED, success=reward > 0, member=number, fork=fork)

    group = Group(make_ticket(size=len(members)), [played(m, *what) for m, what in enumerate(members)])
    for number in errored:
        failed = group.trajectories[number]
        failed.stop = Stop.ERROR
        group.errored.append(failed)
    group.trajectories = [t for t in group.trajectories if t.stop != Stop.ERROR]
    group.rewards = [t.reward for t in group.trajectories]
    return group


def earned(part, group: Group, recipe: Recipe = CENTRED) -> list[list[float]]:
    return [tokens.tolist() for tokens in part([group], recipe.normalization)[0]]


BRANCHED = (("abc", 1.0, None), ("abd", 0.0, Fork(0, 2)), ("aef", 0.0, Fork(1, 1)), ("abg", 1.0, None))


def test_what_was_sampled_once_is_one_draw_and_what_is_alike_by_chance_is_not() -> None:
    draws = trees.draws([tree(*BRANCHED)]).reshape(4, 3)
    assert draws[1, :2].tolist() == draws[0, :2].tolist()
    assert draws[2, 0] == draws[0, 0]
    assert len({*draws.ravel().tolist()}) == 12 - 3
    node, _ = trees.nodes([tree(*BRANCHED)])
    assert node.reshape(4, 3)[3, :2].tolist() == node.reshape(4, 3)[0, :2].tolist()


def test_a_tree_holds_forks_of_forks_and_knows_a_member_that_failed() -> None:
    assert trees.tree_ids([tree(*BRANCHED), tree(*BRANCHED)]).tolist() == [0, 0, 0, 1, 2, 2, 2, 3]
    orphans = tree(*BRANCHED, errored=(0,))
    assert trees.tree_ids([orphans]).tolist() == [0, 0, 1]
    draws = trees.draws([orphans]).reshape(3, 3)
    assert draws[0, 0] == draws[1, 0] != draws[2, 0]


def test_a_shared_turn_earns_the_mean_and_counts_as_one_turn_if_told_so() -> None:
    group = tree(("ab", 1.0, None), ("ac", 0.0, Fork(0, 1)), ("dd", 0.0, None), ("dd", 0.0, None))
    assert earned(credit.shared_prefix, group) == [[0.25, 0.75], [0.25, -0.25], [-0.25, -0.25], [-0.25, -0.25]]
    once = earned(partial(credit.shared_prefix, once=True), group)
    assert once == [[0.125, 0.75], [0.125, -0.25], [-0.25, -0.25], [-0.25, -0.25]]


def test_a_shared_turns_fork_and_trajectory_credit_add_up_to_those_of_one_turn() -> None:
    group = tree(*BRANCHED)
    plain, once = (np.array(earned(partial(credit.forked, once=o), group, recipes.load("grpo"))) for o in (False, True))
    draws = trees.draws([group])
    for draw in set(draws.tolist()):
        assert once.ravel()[draws == draw].sum() == pytest.approx(plain.ravel()[draws == draw].mean())
    alone = [(m, k) for m in range(4) for k in range(3) if (draws == draws[3 * m + k]).sum() == 1]
    assert all(plain[place] == once[place] for place in alone)


def test_trajectories_are_compared_in_their_tree_and_in_their_group() -> None:
    group = tree(("ab", 1.0, None), ("ac", 0.0, Fork(0, 1)), ("de", 1.0, None), ("df", 1.0, Fork(2, 0)))
    inside, overall = [0.5, -0.5, 0.0, 0.0], [0.25, -0.75, 0.25, 0.25]
    assert earned(credit.within_trees, group) == [[a + b] * 2 for a, b in zip(inside, overall, strict=True)]
    assert earned(partial(credit.within_trees, group=0.0), group) == [[a] * 2 for a in inside]


def test_staged_credit_is_the_papers_and_leaves_prefixes_out() -> None:
    group = tree(("abc", 0.0, None), ("ade", 0.0, Fork(0, 1)), ("afg", 0.0, Fork(0, 1)), ("abh", 1.0, Fork(0, 2)))
    below = trees.prefix_subtrees(group)
    assert below.tolist() == [[True] * 4, *[[False, True, True, True]] * 2, [False, False, False, True]]
    values = np.array([0.25, 1 / 3, 1 / 3, 1.0])
    expected = np.array([0.0, 0.0, 0.0, 1.0]) - 0.5 * values
    expected -= expected.mean()
    result = earned(credit.staged, group)
    shared = [0, 1, 1, 2]
    for mine, advantage, k in zip(result, expected, shared, strict=True):
        assert mine == pytest.approx([0.0] * k + [advantage] * (3 - k))


def test_the_order_of_staged_advantages_is_the_papers() -> None:
    below = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=bool)
    assert trees.order(np.array([False, False, False, True]), below) == [(0, 3), (1, 2), (1, 3)]
    below = np.eye(6, dtype=bool)
    below[0], below[1, 3], below[2, 4:] = True, True, True
    assert trees.order(np.array([0, 0, 1, 1, 0, 0], bool), below) == [(0, 2), (0, 3), (1, 3)]


def test_ordered_credit_lets_no_failure_beat_the_success_that_its_prefix_led_to() -> None:
    group = tree(("abc", 0.0, None), ("ade", 0.0, Fork(0, 1)), ("abf", 0.0, Fork(0, 2)), ("abh", 1.0, Fork(0, 2)))
    result = [tokens[-1] for tokens in earned(partial(credit.staged, ordered=True, margin=1.1), group)]
    assert sum(result) == pytest.approx(0.0, abs=1e-6)
    assert min(result[3] - result[m] for m in (0, 1)) >= 1.1 - 1e-6


def test_without_an_order_that_can_be_kept_credit_is_the_heuristic() -> None:
    group = tree(("ab", 0.0, None), ("ac", 1.0, Fork(0, 1)))
    impossible = partial(credit.staged, ordered=True, margin=50.0)
    assert earned(impossible, group) == earned(credit.staged, group)


def test_a_turn_earns_what_it_adds_to_the_value_of_its_place() -> None:
    group = tree(("ab", 1.0, None), ("ac", 0.0, Fork(0, 1)), ("de", 0.0, None), ("df", 0.0, Fork(2, 1)))
    assert earned(credit.value_steps, group) == [[0.25, 0.5], [0.25, -0.5], [-0.25, 0.0], [-0.25, 0.0]]


def test_the_steps_of_a_trajectory_add_up_to_its_advantage() -> None:
    group = play_tree(random_forks, make_ticket(size=8))
    steps = credit.value_steps([group], CENTRED.normalization)[0]
    whole = credit.outcome([group], CENTRED.normalization)[0]
    for mine, advantage, member in zip(steps, whole, group.trajectories, strict=True):
        ends = np.cumsum([turn.completion.num_sampled for turn in member.turns]) - 1
        assert mine[ends].sum() == pytest.approx(advantage[0])


# What it is worth on average: one chain and a fork of it after its first turn


def wander(history: History) -> tuple[float, bool]:
    return ((3 * history[0] + 5 * history[-1]) % 7) / 5 - 0.4, len(history) == 2


def expected(part) -> np.ndarray:
    """The mean over all such trees of `sum of credit * score`, per member."""
    toy, total = toy_tree(), 0.0
    for first in toy.all:
        mates = [other for other in toy.all if other.replies[0] == first.replies[0]]
        for second in mates:
            group = Group(make_ticket(size=2), [record(first), record(second)])
            group.trajectories[1].member, group.trajectories[1].fork = 1, Fork(0, 1)
            likely = first.probability * second.probability / sum(mate.probability for mate in mates)
            credits = part([group], Recipe(baseline=baseline.none).normalization)[0]
            total += likely * sum(c @ t.scores for c, t in zip(credits, (first, second), strict=True)) / 2
    return np.asarray(total)


def toy_tree() -> Enumerable:
    return Enumerable(wander, 3, seed=2, spread=0.7)


@pytest.mark.parametrize("part", [credit.outcome, credit.shared_prefix])
def test_a_tree_has_the_true_gradient_where_shared_turns_count_as_often_as_they_are_shared(part) -> None:
    np.testing.assert_allclose(expected(part), toy_tree().gradient(), atol=1e-12)


def test_trained_once_the_turns_before_a_fork_count_for_half() -> None:
    toy = toy_tree()
    weight = 0.5 * toy.turn(0) + toy.turn(1)
    result = expected(partial(credit.shared_prefix, once=True))
    np.testing.assert_allclose(result, weight * toy.gradient(), atol=1e-12)
