"""Trees on a schedule: values fused from the leaves upwards, advantages depth by depth, and where members fork."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from rl.methods.estimators.tasks import branches
from rl.methods.inputs import Normalization
from rl.methods.parts import baseline, credit, scale
from rl.methods.parts.strategy import scheduled_forks
from rl.records import Fork, Group
from tests.support.batches import make_trajectory
from tests.support.episodes import make_ticket
from tests.support.trees import Chat, RandomLetters, make_tree_runner, play_tree

CENTRED = Normalization(baseline.group_mean, scale.none)


class Long(Chat):
    """Five turns, whatever is said."""

    def reply(self, action):
        outcome = super().reply({**action, "content": action["content"].replace("a", "b")})
        return outcome


def tree() -> Group:
    """Five members: two share two turns, another the first one with them, one has two turns and one has one."""
    paths = [
        ([1, 2, 3], 0.0, None),
        ([1, 2, 4], 0.4, Fork(0, 2)),
        ([1, 5, 6], 1.0, Fork(0, 1)),
        ([7, 8], 0.2, None),
        ([9], 0.6, None),
    ]
    members = []
    for number, (tokens, reward, fork) in enumerate(paths):
        one = make_trajectory(*[(1, 0.0)] * (len(tokens) - 1), (1, reward))
        one.member, one.fork = number, fork
        members.append(one)
    return Group(make_ticket(size=5), members)


def test_children_weigh_alike_however_many_leaves_they_have() -> None:
    draw = np.array([0, 1, 2, 0, 1, 3, 0, 4, 5, 6, 7, 8])
    index = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 0])
    trajectory = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4])
    values = branches.fused(draw, index, trajectory, np.array([0.0, 0.4, 1.0, 0.2, 0.6]))
    np.testing.assert_allclose(values, [0.6, 0.2, 0.0, 0.6, 0.2, 0.4, 0.6, 1.0, 1.0, 0.2, 0.2, 0.6])


def test_advantages_are_among_the_nodes_of_a_depth_and_those_that_have_ended() -> None:
    (parts,) = credit.depth_wise([tree()], CENTRED, quantile=0.0)
    first = np.array([0.6, 0.2, 0.6]) - np.mean([0.6, 0.2, 0.6])
    second = np.array([0.2, 1.0, 0.2]) - np.mean([0.2, 1.0, 0.2, 0.6])
    third = np.array([0.0, 0.4, 1.0]) - np.mean([0.0, 0.4, 1.0, 0.2, 0.6])
    expected = [
        [first[0] / 3, second[0] / 2, third[0]],  # a turn that forks share weighs as one
        [first[0] / 3, second[0] / 2, third[1]],
        [first[0] / 3, second[1], third[2]],
        [first[1], second[2]],
        [first[2]],
    ]
    for one, other in zip(parts, expected, strict=True):
        np.testing.assert_allclose(one, other)


def test_small_advantages_and_depths_without_spread_are_left_out() -> None:
    (parts,) = credit.depth_wise([tree()], CENTRED, quantile=0.5)
    assert [bool(part[-1]) for part in parts] == [
        True,
        False,
        True,
        True,
        True,
    ]  # 0.4 is nearest to the mean of depth 3
    (parts,) = credit.depth_wise([tree()], CENTRED, least=0.3)
    assert not any(part[0] for part in parts)
    assert any(part[-1] for part in parts[:3])


def test_equal_depths_without_forks_are_grpo() -> None:
    members = [make_trajectory((2, 0.0), (1, reward)) for reward in (0.0, 1.0, 1.0, 0.25)]
    for number, one in enumerate(members):
        one.member = number
    group = Group(make_ticket(size=4), members)
    norm = Normalization(baseline.group_mean, scale.group_std)
    (parts,) = credit.depth_wise([group], norm, quantile=0.0)
    (other,) = credit.outcome([group], norm)
    for one, two in zip(parts, other, strict=True):
        np.testing.assert_allclose(one, two)


def test_members_split_before_turns_two_and_four() -> None:
    group = play_tree(scheduled_forks, make_ticket(size=8), make_tree_runner(RandomLetters(letters="bcdefg"), Long))
    forks = [member.fork for member in group.trajectories]
    assert forks[:2] == [None, None]
    assert forks[2:4] == [Fork(0, 1), Fork(1, 1)]
    assert sorted(forks[4:], key=lambda fork: fork.member) == [Fork(member, 3) for member in range(4)]


def test_where_episodes_end_early_members_are_played_from_the_start() -> None:
    class Short(Long):
        max_turns = 1

    group = play_tree(scheduled_forks, make_ticket(size=8), make_tree_runner(RandomLetters(letters="bc"), Short))
    assert [member.fork for member in group.trajectories] == [None] * 8


@pytest.mark.parametrize(
    "slow", [lambda session, length: 1, lambda session, length: 7 - int(session.split("/")[1]) % 7]
)
def test_forks_do_not_depend_on_who_is_faster(slow) -> None:
    def forks(policy):
        group = play_tree(partial(scheduled_forks, levels=1, width=3), make_ticket(size=6), make_tree_runner(policy))
        return [(member.fork, [turn.completion.ids for turn in member.turns]) for member in group.trajectories]

    assert forks(RandomLetters(slow)) == forks(RandomLetters())
