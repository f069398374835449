"""Spare members: who takes whose place, what is thrown away, and that neither speed nor the policy has a say in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from envs.types import Outcome, Stop, text, user
from rl.methods.parts.strategy import independent, redundant
from rl.policy.engine import Policy
from rl.records import Completion, Group, Ticket, Trajectory
from rl.seeds import generator
from rl.train.rollout_metrics import rollout_metrics
from sandboxes import SandboxClosed, SandboxUnavailable
from tests.support.breakable import Breakable, breaking_policy
from tests.support.episodes import (
    END,
    BlockingCount,
    Count,
    FixedPolicy,
    interrupt,
    make_failing_env,
    make_runner,
    make_ticket,
    without_times,
)
from tests.support.runs import assert_same_run, flags, metrics, rollouts, train_run, weights


class Walk(Count):
    """Ends with a reply that begins with `e`, and pays for each reply: the return is the length."""

    max_turns = 40

    def reply(self, action):
        done = text(action).startswith("e")
        return Outcome((user(f"{self.turns + 1}"),), 1.0, done, done)


class Draws(Policy):
    """Ends an episode at a reply with a chance of 0.2, drawn by its seed; fails for the members `down`."""

    version = 0

    def __init__(self, *down: int) -> None:
        self.down = down
        self.sessions: set[str] = set()

    async def sample(self, prompt, params, *, session="", resume_from=None):
        self.sessions.add(session)
        for _ in range(3):
            await asyncio.sleep(0)
        if int(session.partition("/")[2]) in self.down:
            raise ConnectionError("the engine is gone")
        ids = (ord("e") if generator(params.seed).random() < 0.2 else ord("o"), END)
        return Completion(ids, (-0.1, -0.1), (-0.1, -0.1), (0, 0))


def play(runner: Any, ticket: Ticket, **options: Any) -> Group:
    """The group of `redundant` with these options, of `independent` without any."""
    strategy = partial(redundant, **options) if options else independent
    with runner.watchdog.running(interval_s=0.02):
        (group,) = asyncio.run(asyncio.wait_for(strategy(runner, ticket), 20))
    return group


def members(group: Group) -> list[int]:
    return [trajectory.member for trajectory in group.trajectories]


def bare(trajectory: Trajectory) -> Trajectory:
    """What was played, without times and without what place it took."""
    return replace(without_times(trajectory), spare="")


MODES = ["health", "ahead"]
TICKETS = [make_ticket(number, size=4) for number in range(60)]


# Which members are the group


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("down", [(), (1,), (0, 3), (1, 4), (0, 1, 2, 3, 4)])
def test_the_next_spare_takes_the_place_of_a_member_that_failed_and_of_a_spare_that_did(mode, down):
    """Spares are members 4 to 6. Members and rewards are those of seven that are played alone, without the failed."""
    expected = [member for member in range(min(4 + len(down), 7)) if member not in down]
    alone = play(make_runner(Walk, Draws()), replace(TICKETS[0], size=7))
    runner = make_runner(Walk, policy := Draws(*down))
    group = play(runner, TICKETS[0], spares=3, mode=mode)
    assert members(group) == expected
    assert [bare(one) for one in group.trajectories] == [bare(alone.trajectories[member]) for member in expected]
    assert group.rewards == [alone.rewards[member] for member in expected]
    assert [one.spare for one in group.trajectories] == ["used" if member > 3 else "" for member in expected]
    lost = [member for member in down if member < 4 or member in range(4, 4 + len(down))]
    assert sorted({one.member for one in group.errored}) == lost
    assert len(group.errored) == 4 * len(lost)
    if mode == "health":
        assert len(policy.sessions) == len(expected) + len(lost) and group.others == []
    state = runner.play_state.state_dict()
    runner.play_state.close_group(TICKETS[0])
    assert state["live"] == {} and runner.play_state.state_dict()["finished"] == {}


@pytest.mark.parametrize("where", ["start", "constructor"])
def test_so_it_is_where_an_environment_cannot_be_made_or_reset(where):
    make, _ = make_failing_env("start", 4)
    places = iter(range(4))

    def fail():
        if next(places, None) is not None:
            raise SandboxUnavailable("no provider")
        return Count()

    group = play(make_runner(make if where == "start" else fail), make_ticket(size=3), spares=1)
    assert (members(group), {one.member for one in group.errored}) == ([1, 2, 3], {0})


@pytest.mark.parametrize("mode", MODES)
def test_the_rewards_of_groups_do_not_depend_on_the_length_of_episodes(mode):
    """Exactly: the same members as without spares."""
    for ticket in TICKETS:
        alone, group = play(make_runner(Walk, Draws()), ticket), play(make_runner(Walk, Draws()), ticket, mode=mode)
        assert [bare(one) for one in group.trajectories] == [bare(one) for one in alone.trajectories]
        assert group.rewards == alone.rewards


def test_a_race_favours_short_episodes_and_its_metric_shows_it():
    alone = [play(make_runner(Walk, Draws()), ticket) for ticket in TICKETS]
    raced = [play(make_runner(Walk, Draws()), ticket, spares=2, mode="race") for ticket in TICKETS]
    assert all(len(group.trajectories) == 4 for group in raced)
    means = [mean(reward for group in groups for reward in group.rewards) for groups in (alone, raced)]
    assert means[1] < 0.8 * means[0]
    assert rollout_metrics(raced, raced)["spares/length_gap"] < -2
    ahead = [play(make_runner(Walk, Draws()), ticket, spares=2, mode="ahead") for ticket in TICKETS]
    assert rollout_metrics(ahead, ahead)["spares/length_gap"] > 0
    assert "spares/length_gap" not in rollout_metrics(alone, alone)


def test_a_race_counts_nobody_who_fails():
    group = play(make_runner(Walk, Draws(1, 2)), TICKETS[0], spares=2, mode="race")
    assert members(group) == [0, 3, 4, 5]
    assert {one.member for one in group.errored} == {1, 2} and group.others == []


# The policy is an adversary


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["died", "os", "nan", "report"])
@pytest.mark.parametrize("retries", [0, 3])
def test_a_place_that_the_policy_breaks_draws_no_spare(mode, way, retries):
    """Its fault is a failure; where nothing is tried to find out, the episode is left out as without spares."""
    runner = make_runner(Breakable, breaking_policy(way), reply_tokens=20, retries=retries)
    group = play(runner, make_ticket(size=2), mode=mode)
    assert [t.stop for t in group.trajectories] == [Stop.POLICY_FAULT] * (2 if retries else 0)
    assert "used" not in {t.spare for t in (*group.trajectories, *group.errored)}


@pytest.mark.parametrize("error", [SandboxClosed("gone"), SandboxUnavailable("no provider")])
@pytest.mark.parametrize("turn", [0, 2])
def test_nor_does_one_whose_provider_fails_at_the_same_reply_again(error, turn):
    """As where a command ends its own sandbox; an outage would meet the next attempt before that reply."""

    class Down(Breakable):
        def step(self, action):
            if text(action).startswith("break"):
                raise error
            return super().step(action)

    group = play(make_runner(Down, breaking_policy("os", turn), reply_tokens=20), make_ticket(size=2), spares=2)
    assert (group.trajectories, {t.member for t in group.errored}) == ([], {0, 1})


def test_nor_does_one_that_fails_at_another_reply_each_time():
    broken = set()

    class Fragile(Count):
        """Fails at the policy's replies, at each once."""

        goal = 8

        def step(self, action):
            if text(action) == "hi" and self.turns not in broken:
                broken.add(self.turns)
                raise OSError("crashed")
            return super().step(action)

    group = play(make_runner(Fragile), make_ticket(size=1), spares=2)
    assert (group.trajectories, [len(t.turns) for t in group.errored]) == ([], [0, 1, 2, 3])


def test_nor_does_one_whose_replies_take_too_long_to_sample():
    class Late(FixedPolicy):
        async def sample(self, prompt, params, *, session="", resume_from=None):
            return replace(await super().sample(prompt, params), finish="deadline")

    group = play(make_runner(Count, Late()), make_ticket(size=1), spares=2)
    assert (group.trajectories, {t.member for t in group.errored}) == ([], {0})


def test_an_outage_in_the_middle_of_an_episode_draws_one():
    class Outage(Count):
        """Loses its provider at the second reply of the first episode, for as long as three resets."""

        calls = iter([*"oo", "down", *["down"] * 3])

        def reset(self, **options):
            self.check()
            return super().reset(**options)

        def step(self, action):
            self.check()
            return super().step(action)

        def check(self):
            if next(self.calls, "") == "down":
                raise SandboxUnavailable("no provider")

    group = play(make_runner(Outage), make_ticket(size=1), spares=2)
    assert (members(group), [len(t.turns) for t in group.errored]) == ([1], [1, 0, 0, 0])


def test_a_member_that_cannot_be_reset_in_time_does_not_end_its_group():
    class Hangs(BlockingCount):
        num_starts = 0

        def start(self):
            type(self).num_starts += 1
            if self.num_starts <= 2:
                Breakable.released.wait(30)
            return super().start()

    Breakable.released.clear()
    try:
        group = play(make_runner(Hangs, step_s=0.3), make_ticket(size=1), spares=1)
    finally:
        Breakable.released.set()
    assert (members(group), len(group.errored)) == ([1], 4)
    assert "given up after 2 timeouts" in str(group.errored[-1].error)


# What is thrown away


def test_what_is_thrown_away_is_recorded_and_counted():
    class Endless(FixedPolicy):
        """Spares reply one token at a time and never come to an end."""

        async def sample(self, prompt, params, *, session="", resume_from=None):
            if session.endswith("/2"):
                await asyncio.Event().wait()
            return await super().sample(prompt, params, session=session)

        def partial(self, session):
            return Completion((104,) * 5, (-0.1,) * 5, (-0.1,) * 5, (0,) * 5, "abort")

    runner = make_runner(Count, policy := Endless())
    group = play(runner, make_ticket(size=2), spares=1, mode="ahead")
    (unused,) = group.others
    assert (members(group), unused.member, unused.spare, unused.turns) == ([0, 1], 2, "unused", [])
    assert unused.num_new_sampled == 5 and policy.releases["0/2"] == 1
    assert unused.error == "Unused: the group was complete without this episode"
    line = rollout_metrics([group], [group])
    assert {name: value for name, value in line.items() if name.startswith("spares/")} == {
        "spares/played": 1.0,
        "spares/used": 0.0,
        "spares/tokens": 5.0,
        "spares/length_gap": 4.0,
    }
    assert line["tokens/sampled"] == 2 * 9 + 5 and line["episodes/played"] == 2 and line["episodes/errored"] == 0


def test_spares_that_are_used_are_counted():
    group = play(make_runner(Walk, Draws(1)), TICKETS[0], spares=2)
    line = rollout_metrics([group], [group])
    assert (line["spares/played"], line["spares/used"], line["spares/tokens"]) == (1, 1, 0)
    assert (line["episodes/played"], line["episodes/errored"]) == (4, 1)


# Interruptions


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("moment", [0, 3, 10, 14, 20, 33, 50, 70, 90])
def test_an_interrupted_group_goes_on_as_if_nothing_had_happened(mode, moment):
    strategy = partial(redundant, spares=2, mode=mode)

    async def interrupted(runner):
        return await interrupt(runner, [strategy(runner, TICKETS[2])], moment)

    whole = play(make_runner(Walk, Draws(1)), TICKETS[2], spares=2, mode=mode)
    state = asyncio.run(interrupted(make_runner(Walk, Draws(1))))
    runner = make_runner(Walk, Draws(1), state=asyncio.run(interrupted(make_runner(Walk, Draws(1), state=state))))
    group = play(runner, TICKETS[2], spares=2, mode=mode)
    assert members(group) == [0, 2, 3, 4] == members(whole)
    for name in ("trajectories", "errored", "others"):
        assert [without_times(t) for t in getattr(group, name)] == [without_times(t) for t in getattr(whole, name)]


def test_a_cancelled_group_leaves_nobody_playing():
    async def cancelled(runner):
        task = asyncio.create_task(redundant(runner, TICKETS[0], mode="ahead"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(asyncio.all_tasks())

    assert asyncio.run(cancelled(make_runner(Walk, Draws()))) == 1


def test_without_faults_a_run_is_the_one_without_spares_bit_for_bit(tmp_path: Path) -> None:
    alone = train_run(*flags("Talk", updates=2), out=tmp_path / "alone")
    health = train_run(*flags("Talk", updates=2, strategy="redundant:spares=2"), out=tmp_path / "health")
    assert_same_run(health, alone)


def test_spares_go_with_a_journal(tmp_path: Path) -> None:
    words = flags("Talk", updates=3, lag=1, strategy="redundant:spares=2,mode=ahead")
    alone, run = train_run(*words, out=tmp_path / "alone"), train_run(*words, "--journal", out=tmp_path / "run")
    assert metrics(run) == metrics(alone) and metrics(run)[0]["spares/tokens"] > 0
    assert weights(run).keys() == weights(alone).keys()
    spares = [line["spare"] for line in rollouts(run, 1) if "spare" in line]
    assert set(spares) == {"unused"}


def test_every_seat_of_a_game_has_spares(tmp_path: Path) -> None:
    words = flags("multi/IteratedDilemma-v0", updates=1, turn_tokens=12, env_arg="style=short")
    alone = train_run(*words, out=tmp_path / "alone")
    ahead = train_run(*words, "--strategy", "redundant:mode=ahead", out=tmp_path / "ahead")
    members = [line for line in rollouts(ahead, 1) if line.get("spare") != "unused"]
    tokens = [[turn["ids"] for line in lines for turn in line["turns"]] for lines in (members, rollouts(alone, 1))]
    assert tokens[0] == tokens[1]
    seats = [(line["group"], line["agent"]) for line in rollouts(ahead, 1) if line.get("spare") == "unused"]
    assert sorted(seats) == [(group, seat) for group in (0, 1) for seat in ("player_0", "player_1")]
