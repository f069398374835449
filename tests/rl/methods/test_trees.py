"""Members that are forks: exact copies of what they share, alike in every order of events, and cheap."""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import copy, deepcopy
from functools import partial

import pytest

from envs.types import Outcome, Stop, user
from rl.methods.parts.strategy import chain_forks, entropy_forks, level_forks, random_forks, value_forks
from rl.records import Fork, Trajectory
from rl.seeds import derive
from rl.train.rollout_metrics import rollout_metrics
from sandboxes import SandboxBusy
from tests.support.episodes import interrupt, make_failing_env, make_ticket
from tests.support.trees import Chat, RandomLetters, make_tree_runner, own_turns, play_tree, without_group_times

STRATEGIES = {
    "entropy": entropy_forks,
    "wide beam": partial(entropy_forks, initial=0.1, beam=4, chance=0.9),
    "levels": level_forks,
    "three a level": partial(level_forks, first=0.1, forks=3),
    "random": random_forks,
    "three rounds": partial(random_forks, chains=1, rounds=3),
    "chain": chain_forks,
    "two chains": partial(chain_forks, chains=2),
    "search": value_forks,
    "search, two at a time": partial(value_forks, chains=2, at_once=2),
}
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
TICKETS = [make_ticket(number, index=number % 4, size=8) for number in range(4)]


def forks(group):
    return [t for t in group.trajectories if t.fork is not None]


@every_strategy
def test_a_fork_is_an_exact_copy_and_then_itself(strategy) -> None:
    groups = [play_tree(strategy, chosen) for chosen in TICKETS]
    pairs = [(fork, by_number(group)[fork.fork.member]) for group in groups for fork in forks(group)]
    assert any(fork.fork.turns for fork, _ in pairs)
    for fork, parent in pairs:
        k = fork.fork.turns
        assert said(fork.turns[:k]) == said(parent.turns[:k])
        for mine, theirs in zip(fork.turns[:k], parent.turns[:k], strict=True):
            assert mine.completion is theirs.completion
            assert mine is not theirs  # what a scorer writes to one is not the other's
        assert fork.turns[k].context == parent.turns[k].context
        assert fork.turns[k].completion.logprobs != parent.turns[k].completion.logprobs


def by_number(group):
    return {t.member: t for t in group.trajectories}


def said(turns):
    return [(t.context, t.completion, t.observation, t.reply, t.reward, t.state, t.valid, t.metrics) for t in turns]


@every_strategy
def test_a_group_has_its_size_and_no_shared_turn_is_sampled_twice(strategy) -> None:
    for chosen in TICKETS:
        policy = RandomLetters()
        group = play_tree(strategy, chosen, make_tree_runner(policy))
        assert [t.member for t in group.trajectories] == list(range(8))
        assert group.errored == []
        assert len(policy.requests) == own_turns(group)
        sampled = sum(t.num_new_sampled for t in group.trajectories)
        assert rollout_metrics([group], [group])["tokens/sampled"] == sampled
        draws = {id(turn.completion): turn.completion.num_sampled for t in group.trajectories for turn in t.turns}
        assert sum(draws.values()) == sampled <= sum(t.num_sampled for t in group.trajectories)


SPEEDS = {
    "the first slowly": lambda session, length: 9 - int(session.rpartition("/")[2]),
    "the last slowly": lambda session, length: 1 + 3 * int(session.rpartition("/")[2]),
    "anyhow": lambda session, length: derive(session, length) % 17,
    "anyhow else": lambda session, length: derive("else", session, length) % 29,
}


@every_strategy
def test_nobodys_speed_changes_a_tree(strategy) -> None:
    expected = [without_group_times(play_tree(strategy, chosen)) for chosen in TICKETS]

    async def together(playing):
        results = await asyncio.gather(*(strategy(playing, chosen) for chosen in TICKETS))
        return [group for (group,) in results]

    for slow in SPEEDS.values():
        assert [
            without_group_times(group) for group in asyncio.run(together(make_tree_runner(RandomLetters(slow))))
        ] == expected


class WaitingChat(Chat):
    blocking = True


@every_strategy
@pytest.mark.parametrize("moment", [1, 3, 7, 12, 20, 31])
def test_an_interrupted_tree_goes_on_as_if_nothing_had_happened(strategy, moment) -> None:
    assert_goes_on(strategy, moment, Chat)


@every_strategy
@pytest.mark.parametrize("moment", [7, 12, 20])
def test_so_does_one_whose_members_break_their_places(strategy, moment) -> None:
    assert_goes_on(strategy, moment, Fragile)


def assert_goes_on(strategy, moment, env) -> None:
    """A tree that is interrupted twice ends like one that is not, and samples nothing twice."""
    expected = [without_group_times(play_tree(strategy, one, make_tree_runner(env=env))) for one in TICKETS[:2]]

    async def interrupted(playing):
        return await interrupt(playing, [strategy(playing, chosen) for chosen in TICKETS[:2]], moment)

    async def whole(playing):
        return [(await strategy(playing, chosen))[0] for chosen in TICKETS[:2]]

    state = asyncio.run(interrupted(make_tree_runner(env=env)))
    state = asyncio.run(interrupted(make_tree_runner(env=env, state=state)))
    known = {id(turn.completion) for turns, _ in state["live"].values() for turn in turns}
    known |= {id(reply) for _, reply in state["live"].values() if reply is not None}
    known |= {id(turn.completion) for record in state["finished"].values() for turn in record.turns}
    failed = [record for failures in state["failed"].values() for record in failures]
    known |= {id(turn.completion) for record in failed for turn in (*record.turns, record.fault)}
    policy = RandomLetters()
    third = make_tree_runner(policy, env, state=state)
    groups = asyncio.run(whole(third))
    assert [without_group_times(group) for group in groups] == expected
    assert len(policy.requests) == sum(map(own_turns, groups)) - len(known)
    assert third.play_state.state_dict()["live"] == {}


@every_strategy
def test_environments_that_wait_make_the_same_trees(strategy) -> None:
    waiting = play_tree(strategy, TICKETS[1], make_tree_runner(env=WaitingChat))
    assert without_group_times(waiting) == without_group_times(play_tree(strategy, TICKETS[1]))


# Faults


@every_strategy
def test_a_failed_attempt_is_repeated_with_what_had_been_said(strategy) -> None:
    make, _ = make_failing_env("reply", 3, Chat)
    policy = RandomLetters()
    group = play_tree(strategy, TICKETS[0], make_tree_runner(policy, make))
    assert without_group_times(group).trajectories == without_group_times(play_tree(strategy, TICKETS[0])).trajectories
    assert 1 <= len(group.errored) <= 3
    assert {t.error for t in group.errored} == {"OSError: no reply"}
    assert all(t.stop != Stop.ERROR for t in group.trajectories)
    assert len(policy.requests) == own_turns(group)  # no reply is asked for again


class Fragile(Chat):
    """Fails at every second turn of whoever says a `b`."""

    error = OSError("no b")

    def reply(self, action):
        if self.turns == 1 and "b" in action["content"]:
            raise copy(self.error)  # the same one would gather the places of all that have raised it
        return super().reply(action)


class Crowded(Fragile):
    """Has no place for whoever says a `b`, which is no fault of the reply."""

    error = SandboxBusy("no place")


@every_strategy
def test_who_breaks_its_place_is_a_failed_member_of_the_tree(strategy) -> None:
    stops = Counter()
    for chosen in TICKETS:
        policy = RandomLetters()
        group = play_tree(strategy, chosen, make_tree_runner(policy, Fragile))
        assert ([t.member for t in group.trajectories], group.errored) == (list(range(8)), [])
        assert len(policy.requests) == own_turns(group)
        for record in group.trajectories:
            is_broken = len(record.turns) > 1 and "b" in record.turns[1].reply["content"]
            assert (record.stop == Stop.POLICY_FAULT) == is_broken
            assert not is_broken or (len(record.turns) == 2 and not record.success and not record.turns[1].reward)
        stops.update(t.stop for t in group.trajectories)
    assert stops[Stop.POLICY_FAULT] and stops[Stop.TERMINATED] > 2


@every_strategy
def test_a_member_that_always_fails_costs_no_other_and_is_in_no_group(strategy) -> None:
    failed, ended = Counter(), Counter()
    for chosen in TICKETS:
        group = play_tree(strategy, chosen, make_tree_runner(env=Crowded, retries=1))
        assert all(t.stop != Stop.ERROR for t in group.trajectories)
        failed.update({chosen.number: len({t.member for t in group.errored})})
        ended.update({chosen.number: len(group.trajectories)})
        assert failed[chosen.number] + ended[chosen.number] == 8
        assert not {t.member for t in group.errored} & {t.member for t in group.trajectories}
    assert sum(failed.values()) > 0 and sum(ended.values()) > 8


def test_an_environment_that_cannot_be_played_again_loses_forks_only() -> None:
    class Moody(Chat):
        moods = iter(range(10**6))

        def reply(self, action):
            outcome = super().reply(action)
            return Outcome((user(f"mood {next(self.moods)}"),), outcome.reward, outcome.terminated, outcome.success)

    group = play_tree(chain_forks, TICKETS[2], make_tree_runner(env=Moody))
    assert {t.member for t in group.trajectories if t.fork and t.fork.turns} == set()
    assert 0 in {t.member for t in group.trajectories}
    assert {t.error for t in group.errored} == {
        "RuntimeError: replayed to turn 1, the environment says something else than the first time"
    }


# Snapshots


class Photographed(Chat):
    """Offers its state, and counts its steps."""

    steps = 0

    def snapshot(self):
        return deepcopy(
            {name: getattr(self, name) for name in ("turns", "dialogue", "_dialogue_digest", "_digest_length")}
        )

    def restore(self, state):
        vars(self).update(deepcopy(state))

    def reply(self, action):
        type(self).steps += 1
        return super().reply(action)


@every_strategy
def test_a_snapshot_is_restored_and_nothing_played_again(strategy) -> None:
    for env in (Photographed, type("Waits", (Photographed,), {"blocking": True})):
        env.steps = 0
        groups = [play_tree(strategy, chosen, make_tree_runner(env=env)) for chosen in TICKETS]
        assert any(map(forks, groups))
        assert env.steps == sum(map(own_turns, groups))
        assert list(map(without_group_times, groups)) == [
            without_group_times(play_tree(strategy, chosen)) for chosen in TICKETS
        ]


# What a fork costs in metrics


def test_tokens_of_forks_and_of_replayed_records_are_counted_where_they_were_sampled() -> None:
    group = play_tree(chain_forks, TICKETS[0])
    fork = forks(group)[-1]
    assert fork.num_new_sampled == fork.num_sampled - sum(
        turn.completion.num_sampled for turn in fork.turns[: fork.fork.turns]
    )
    assert Trajectory(fork.turns, fork.stop).num_new_sampled == fork.num_sampled
    assert Trajectory(fork.turns, fork.stop, fork=Fork(0, 0)).num_new_sampled == fork.num_sampled
    assert Trajectory(fork.turns, fork.stop, replayed=True).num_new_sampled == 0
