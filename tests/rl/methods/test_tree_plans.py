"""Which turns a tree forks at: the plans of the strategies, asked about records that the test makes up."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import pytest

from rl.methods.parts.strategy import chain_forks, entropy_forks, forks, level_forks, random_forks, search
from rl.methods.parts.strategy.growth import MemberState, grow
from rl.records import Completion, Fork, Ticket, Turn
from rl.seeds import derive
from tests.support.episodes import make_ticket
from tests.support.trees import make_tree_runner, play_tree


def chain(*surprise: float, done: bool = True, reward: float | None = 0.0) -> MemberState:
    """A member whose replies have this mean negative log-probability."""
    return MemberState([Turn((9,), Completion((1, 2), (-x, -x), (-x, -x), (0, 0))) for x in surprise], done, reward)


def uncertain(chosen: Ticket, states: dict[int, MemberState], **options):
    kwargs = {"initial": 0.5, "beam": 2, "chance": 0.5, "weight": 0.2, "tokens": 20} | options
    return forks._fork_uncertain(chosen, states, **kwargs)


EIGHT = make_ticket(size=8)


def test_no_member_is_named_before_everyone_it_could_depend_on_is_known() -> None:
    assert uncertain(EIGHT, {}) == dict.fromkeys(range(4))
    sure = {"chance": 1.0}
    half = {m: chain(1.0, 1.0, done=False) for m in range(3)} | {3: chain(1.0, done=False)}
    assert uncertain(EIGHT, half, **sure) == dict.fromkeys(range(4))
    half[3] = chain(1.0, done=True)  # has nothing to fork at
    assert uncertain(EIGHT, half, **sure) == dict.fromkeys(range(4)) | {4 + m: Fork(m, 1) for m in range(3)}


def test_what_no_fork_has_used_is_played_from_the_start_once_all_have_ended() -> None:
    states = {m: chain(1.0, 1.0) for m in range(4)}
    assert uncertain(EIGHT, states, chance=0.0, weight=0.0) == dict.fromkeys(range(8))
    states[2] = chain(1.0, 1.0, done=False)
    assert uncertain(EIGHT, states, chance=0.0, weight=0.0) == dict.fromkeys(range(4))


def test_forks_of_forks_wait_for_their_turn_and_the_budget_goes_round_by_round() -> None:
    states = {0: chain(1.0, 1.0, 1.0), 1: chain(1.0, 1.0, 1.0)}
    starts = uncertain(EIGHT, states, initial=0.25, chance=1.0)
    assert starts == {0: None, 1: None, 2: Fork(0, 1), 3: Fork(1, 1)}
    states |= {2: chain(1.0, 1.0, 1.0), 3: chain(1.0, 1.0)}
    starts = uncertain(EIGHT, states, initial=0.25, chance=1.0)
    assert {m: starts[m] for m in range(4, 7)} == {4: Fork(0, 2), 5: Fork(1, 2), 6: Fork(2, 2)}
    assert uncertain(make_ticket(size=5), states, initial=0.4, chance=1.0)[4] == Fork(0, 2)  # no room for more


def test_a_beam_forks_as_often_as_it_is_wide_less_one() -> None:
    states = {0: chain(1.0, 1.0)}
    starts = uncertain(EIGHT, states, initial=0.1, beam=4, chance=1.0)
    assert starts == {0: None, 1: Fork(0, 1), 2: Fork(0, 1), 3: Fork(0, 1)}


@pytest.mark.parametrize("now", [0.0, 1.0, 2.5, 5.0])
def test_the_chance_of_a_fork_is_what_was_promised(now: float) -> None:
    tried, expected = 4000, min(max(0.5 + 0.2 * (now - 1.0), 0.0), 1.0)
    forked = sum(
        1 in uncertain(Ticket(0, 0, "train", derive(seed), 2), {0: chain(1.0, now, done=False)}, initial=0.1)
        for seed in range(tried)
    )
    assert abs(forked / tried - expected) <= 4 * math.sqrt(0.25 / tried)


def test_only_the_first_tokens_of_a_reply_say_how_uncertain_it_is() -> None:
    turn = Turn((9,), Completion((1,) * 4, (-1.0, -3.0, -50.0, -50.0), (0.0,) * 4, (0,) * 4))
    assert forks._surprise(turn, 2) == 2.0
    assert forks._surprise(turn, 20) == 26.0
    assert forks._surprise(Turn((9,), Completion((), (), (), ())), 20) == 0.0


def test_every_level_keeps_as_many_branches_as_there_is_room_for() -> None:
    by_level = partial(forks._fork_levels, first=0.25, forks=2)
    going = {m: chain(1.0, done=False) for m in range(2)}
    assert by_level(EIGHT, {0: going[0]}) == {0: None, 1: None}
    starts = by_level(EIGHT, going)
    assert starts == {0: None, 1: None, 2: Fork(0, 1), 3: Fork(1, 1)}
    two = {m: chain(1.0, 1.0, done=m == 3) for m in range(4)}  # the last one has ended with its second reply
    assert by_level(EIGHT, two) == starts | {4 + m: Fork(m, 2) for m in range(3)}
    narrow = partial(forks._fork_levels, first=0.5, forks=3)
    chosen = [narrow(Ticket(0, 0, "train", derive(seed), 4), going) for seed in range(50)]
    assert all(len(starts) == 4 for starts in chosen)
    kept = Counter(tuple(starts[m].member for m in (2, 3)) for starts in chosen)
    assert kept.keys() == {(0, 0), (0, 1), (1, 1)}


def test_the_group_is_filled_from_the_start_where_all_branches_have_ended() -> None:
    ended = {m: chain(1.0) for m in range(2)}
    assert forks._fork_levels(EIGHT, ended, first=0.25, forks=2) == dict.fromkeys(range(8))


def test_random_forks_leave_inner_turns_of_their_own_tree_each_equally_often() -> None:
    states = {0: chain(*[1.0] * 4), 1: chain(*[1.0] * 3)}
    counts: Counter[Fork] = Counter()
    for seed in range(500):
        starts = forks._fork_at_random(Ticket(0, 0, "train", derive(seed), 8), states, chains=2, rounds=1)
        assert all(starts[member].member == member % 2 for member in range(2, 8))
        counts.update(starts[member] for member in range(2, 8))
    assert counts.keys() == {Fork(0, 1), Fork(0, 2), Fork(0, 3), Fork(1, 1), Fork(1, 2)}
    assert all(abs(counts[Fork(0, k)] / 1500 - 1 / 3) < 0.05 for k in (1, 2, 3))
    assert all(abs(counts[Fork(1, k)] / 1500 - 1 / 2) < 0.05 for k in (1, 2))


def test_a_round_of_random_forks_waits_for_the_one_before_in_its_tree_only() -> None:
    expand = partial(forks._fork_at_random, EIGHT, chains=2, rounds=3)
    states = {0: chain(1.0, 1.0), 1: chain(1.0, 1.0, done=False)}
    assert expand(states) == {0: None, 1: None, 2: Fork(0, 1)}
    later = expand(states | {2: chain(1.0, 1.0, 1.0)})
    assert later.keys() == {0, 1, 2, 4} and later[4] in (Fork(0, 1), Fork(2, 2))


def test_a_tree_without_an_inner_turn_begins_anew_and_stays_one_tree() -> None:
    starts = forks._fork_at_random(make_ticket(size=3), {0: chain(1.0)}, chains=1, rounds=1)
    assert starts == {0: None, 1: Fork(0, 0), 2: Fork(0, 0)}


def test_prefixes_are_spread_over_the_depths_of_the_chain() -> None:
    starts = forks._fork_along_chains(EIGHT, {0: chain(*[1.0] * 4)}, chains=1)
    assert starts == {0: None} | {m: Fork(0, k) for m, k in enumerate((0, 1, 1, 2, 2, 3, 3), start=1)}
    assert forks._fork_along_chains(EIGHT, {0: chain(*[1.0] * 4, done=False)}, chains=1) == {0: None}
    two = forks._fork_along_chains(EIGHT, {1: chain(1.0, 1.0)}, chains=2)
    assert two == {0: None, 1: None, 3: Fork(1, 0), 5: Fork(1, 1), 7: Fork(1, 1)}


def searched(states: dict[int, MemberState], size: int, **options):
    kwargs = {"chains": 2, "width": 2, "explore": 0.0, "at_once": 1} | options
    return search._fork_by_value(make_ticket(size=size), states, **kwargs)


def test_a_search_goes_down_where_returns_are_high() -> None:
    states = {0: chain(1.0, 1.0, 1.0, reward=0.0), 1: chain(1.0, 1.0, 1.0, reward=1.0)}
    assert searched(states, 3)[2] == Fork(1, 1)
    states[2] = chain(1.0, 1.0, 1.0, reward=1.0)
    assert searched(states, 4)[3] == Fork(1, 2)  # the first of two alike
    states[3] = chain(1.0, 1.0, 1.0, reward=0.0)
    assert searched(states, 5)[4] == Fork(2, 2)


def test_a_search_explores_what_it_has_seldom_visited() -> None:
    states = {m: chain(1.0, 1.0, 1.0, reward=float(m > 0)) for m in range(3)}
    assert searched(states, 4, explore=50.0)[2] == searched(states, 4)[2] == Fork(1, 1)
    assert searched(states, 4, explore=0.0)[3] == Fork(1, 2)
    assert searched(states, 4, explore=50.0)[3] == Fork(0, 1)


def test_a_search_never_forks_behind_an_end_and_widens_where_there_is_nothing_else() -> None:
    states = {0: chain(1.0, reward=1.0), 1: chain(1.0, reward=0.0)}
    assert searched(states, 4)[2] == Fork(0, 0)
    assert searched(states, 4, at_once=2) == {0: None, 1: None, 2: Fork(0, 0), 3: Fork(0, 0)}


def test_forks_of_one_round_are_told_of_each_other() -> None:
    states = {0: chain(1.0, 1.0, reward=1.0), 1: chain(1.0, 1.0, reward=1.0)}
    starts = searched(states, 6, at_once=4, explore=1.0)
    assert sorted(starts[m] for m in range(2, 6)) == [Fork(0, 1), Fork(0, 1), Fork(1, 1), Fork(1, 1)]


def test_a_member_that_failed_has_no_return() -> None:
    states = {0: chain(1.0, 1.0, reward=-1.0), 1: chain(1.0, 1.0, reward=None)}
    assert searched(states, 3)[2] == Fork(1, 1)  # not looked at yet


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "strategy",
    [
        *(entropy_forks, partial(entropy_forks, initial=1.0), partial(level_forks, first=1.0), level_forks),
        *(partial(random_forks, chains=5, rounds=4), partial(chain_forks, chains=9)),
    ],
)
def test_small_groups_have_their_size_too(strategy, size: int) -> None:
    group = play_tree(strategy, make_ticket(size=size))
    assert [t.member for t in group.trajectories] == list(range(size))


def test_a_plan_that_forks_in_the_future_is_a_fault_of_its_author() -> None:
    async def hasty(runner, chosen):
        return await grow(runner, chosen, lambda states: {0: None, 1: Fork(0, 3)} if states else {0: None})

    with pytest.raises(ExceptionGroup) as caught:
        play_tree(hasty, make_ticket(size=2), make_tree_runner())
    assert "cannot fork member 0 after 3 turns: it has 0" in str(caught.value.exceptions[0])
