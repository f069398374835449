"""Forks within replies that are kept where what follows differs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rl.methods.estimators.similarity import edit_distance
from rl.methods.parts.reweigh import unforced
from rl.methods.parts.strategy import look_ahead
from rl.records import Group
from tests.support.episodes import LetterAgent, interrupt, make_runner, make_ticket, without_times
from tests.support.letters import CHANCES, Letters
from tests.support.trees import Chat

OPEN = 5  # the only place where several letters are about as likely


class OneReply(Chat):
    """Ends after the first reply."""

    max_turns = 1


def play(strategy, ticket=None, policy=None, **more) -> Group:
    runner = make_runner(OneReply, policy or Letters(), LetterAgent, reply_tokens=20, **more)
    (group,) = asyncio.run(asyncio.wait_for(strategy(runner, ticket or make_ticket(size=8)), 20))
    return group


def forced(trajectory) -> tuple[float, ...]:
    return trajectory.turns[0].streams["forced"]


@pytest.mark.parametrize(
    "one, other, distance",
    [("", "", 0), ("abc", "abc", 0), ("abc", "xyz", 1), ("kitten", "sitting", 3 / 7), ("ab", "b", 0.5), ("", "ab", 1)],
)
def test_edit_distances(one: str, other: str, distance: float) -> None:
    assert edit_distance(one, other) == edit_distance(other, one) == pytest.approx(distance)


def test_members_fork_where_two_tokens_are_about_as_likely() -> None:
    policy = Letters()
    group = play(partial(look_ahead, distance=0.1), policy=policy)
    root, *others = group.trajectories
    assert len(group.trajectories) == 8
    forks = [member for member in others if member.num_reused]
    assert [member.member for member in forks] == [1, 2]  # the two other letters of three
    ids = root.turns[0].completion.ids
    assert {ids[OPEN], *(fork.turns[0].completion.ids[OPEN] for fork in forks)} == set(map(ord, CHANCES[OPEN]))
    for fork in forks:
        reply = fork.turns[0].completion
        assert reply.ids[:OPEN] == ids[:OPEN]
        assert fork.num_reused == OPEN + 1
        assert forced(fork) == tuple(float(t == OPEN) for t in range(len(reply.ids)))
        assert len(reply.logprobs) == len(reply.ids) and not reply.alternatives
    assert all(not any(forced(member)) for member in (root, *others) if not member.num_reused)
    assert sum(member.num_new_sampled for member in group.trajectories) == policy.num_sampled


def test_forks_that_lead_to_the_same_are_given_up_and_their_tokens_counted() -> None:
    policy = Letters()
    group = play(partial(look_ahead, distance=0.9), policy=policy)
    assert not any(member.num_reused for member in group.trajectories)
    assert group.trajectories[0].num_side_sampled == 2 * 4  # three letters and the end of each of two forks
    assert sum(member.num_new_sampled for member in group.trajectories) == policy.num_sampled


def test_a_look_ahead_is_as_short_as_asked_for() -> None:
    group = play(partial(look_ahead, distance=0.9, tokens=2))
    assert group.trajectories[0].num_side_sampled == 2 * 2


def test_fewer_groups_are_trees_as_the_policy_learns() -> None:
    def trees(version: int) -> int:
        tickets = [replace(make_ticket(number, size=4), version=version) for number in range(100)]
        groups = [play(partial(look_ahead, distance=0.1), ticket) for ticket in tickets]
        return sum(any(member.num_reused for member in group.trajectories) for group in groups)

    assert trees(99) == 100
    assert 60 <= trees(100) <= 90
    assert 12 <= trees(900) <= 40


def test_what_was_chosen_is_not_learned_from() -> None:
    group = play(partial(look_ahead, distance=0.1))
    credit = [[np.ones(len(member.turns[0].completion.ids)) for member in group.trajectories]]
    (result,) = unforced([group], credit)
    for member, one in zip(group.trajectories, result, strict=True):
        assert one.tolist() == [1.0 - mark for mark in forced(member)]
    assert all(one.all() for one in credit[0])


@pytest.mark.parametrize("moment", [1, 6, 12, 16, 20, 26, 32])
@pytest.mark.parametrize("distance", [0.1, 0.9])
def test_an_interrupted_group_goes_on_as_if_nothing_had_happened(moment: int, distance: float) -> None:
    strategy = partial(look_ahead, distance=distance)

    async def interrupted(runner):
        return await interrupt(runner, [strategy(runner, make_ticket(size=8))], moment)

    expected = play(strategy)
    state = asyncio.run(interrupted(make_runner(OneReply, Letters(), LetterAgent, reply_tokens=20)))
    group = play(strategy, state=state)
    assert [without_times(member) for member in group.trajectories] == [
        without_times(member) for member in expected.trajectories
    ]
