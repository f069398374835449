"""Controls of a fault in an environment without an oracle: replies that do nothing, and then random ones."""

import asyncio
import itertools
from collections import Counter

import pytest

from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.types import Outcome, Stop, Task, assistant, text, user
from rl.methods.parts.strategy import independent
from tests.support.episodes import END, Count, FixedPolicy, make_runner, make_ticket, play_group


class Guarded(Count):
    """Does not look at replies other than the moves a to d, as games behind adapters do not; without an oracle."""

    broken = "abcd"

    def reply(self, action):
        if text(action) not in ("a", "b", "c", "d"):
            return Outcome((user("no move"),), valid=False)
        if text(action) in self.broken:
            raise KeyError(text(action))
        return super().reply(action)

    def random(self, rng):
        return assistant("abcd"[int(rng.integers(4))])


def test_a_game_whose_every_move_fails_is_at_fault_though_it_survives_replies_that_do_nothing():
    group = play_group(make_runner(Guarded, FixedPolicy(lambda prompt: (ord("b"), END))), make_ticket())
    assert (group.trajectories, [t.error for t in group.errored]) == ([], ["KeyError: 'b'"] * 4)


@pytest.mark.parametrize("moves", ["b", "ab", "aaaaaab"])
def test_a_move_that_alone_makes_a_game_fail_is_the_policys(moves):
    class Fragile(Guarded):
        broken = "b"
        goal = 9

    replies = itertools.cycle(moves)
    policy = FixedPolicy(lambda prompt: (ord(next(replies)), END))
    for number in range(6):
        group = play_group(make_runner(Fragile, policy), make_ticket(number))
        assert ([t.stop for t in group.trajectories], group.errored) == ([Stop.POLICY_FAULT], [])
        replies = itertools.cycle(moves)


def test_a_move_that_alone_makes_a_game_hang_is_the_policys_though_controls_meet_it_too():
    class Hanging(Guarded):
        goal = 9

        def reply(self, action):
            if text(action) == "b":
                while True:
                    pass
            self.broken = ""
            return super().reply(action)

    for number in range(4):
        runner = make_runner(Hanging, FixedPolicy(lambda prompt: (ord("b"), END)), step_s=0.2)
        with runner.watchdog.running(interval_s=0.02):
            group = play_group(runner, make_ticket(number))
        assert ([t.stop for t in group.trajectories], group.errored) == ([Stop.POLICY_FAULT], [])


def test_a_game_that_an_earlier_move_has_ruined_is_the_policys():
    class Ruined(Guarded):
        broken = ""
        goal = 9
        is_ruined = False

        def start(self):
            self.is_ruined = False
            return super().start()

        def reply(self, action):
            if self.is_ruined:
                raise KeyError("ruins")
            self.is_ruined = text(action) == "d"
            return super().reply(action)

    group = play_group(make_runner(Ruined, FixedPolicy(lambda prompt: (ord("d"), END))), make_ticket())
    assert ([t.stop for t in group.trajectories], group.errored) == ([Stop.POLICY_FAULT], [])


class GuardedGame(MultiEnv):
    """Two seats move in turn, and it does not look at replies other than the moves h to k; without an oracle."""

    seats = ("first", "second")
    max_turns = 9
    broken = "hijk"

    def tasks(self, split):
        return [Task(f"{split}/{i}") for i in range(4)]

    def start(self):
        return Round({"first": (user("go"),)}, to_move=("first",))

    def reply(self, replies):
        ((seat, message),) = replies.items()
        if text(message) and text(message)[0] in self.broken:
            raise ValueError("broken by a move")
        if self.rounds == 15:
            return Round({}, {"first": 1.0}, success={"first": True})
        other = self.others(seat)[0]
        return Round({other: (user(f"{self.rounds}"),)}, to_move=(other,))

    def random(self, seat, rng):
        return assistant("hijk"[int(rng.integers(4))])


class SeatPolicy(FixedPolicy):
    """Says `move(seat, number)`, for the replies of each seat from 1."""

    def __init__(self, move):
        super().__init__()
        self.move, self.counts = move, Counter()

    async def sample(self, prompt, params, *, session="", resume_from=None):
        self.counts[session] += 1
        letter = self.move(session.rpartition("/")[2], self.counts[session])
        self.reply = lambda prompt: (ord(letter), END)
        return await super().sample(prompt, params, session=session)


def play_game(env, move, number=0):
    runner = make_runner(env, SeatPolicy(move), seats=env.seats, retries=3)
    return asyncio.run(independent(runner, make_ticket(number)))


def test_a_game_of_seats_whose_every_move_fails_is_at_fault_too():
    groups = play_game(GuardedGame, lambda seat, number: "h")
    assert [group.trajectories for group in groups] == [[], []]
    assert [len(group.errored) for group in groups] == [4, 4]


@pytest.mark.parametrize("turn", [1, 4])
def test_a_move_of_a_seat_that_alone_makes_a_game_fail_is_the_policys(turn):
    class Fragile(GuardedGame):
        broken = "h"

    for ticket in range(4):
        groups = play_game(Fragile, lambda seat, number: "h" if (seat, number) == ("second", turn) else "i", ticket)
        assert [len(group.errored) for group in groups] == [0, 0]
        assert [len(group.trajectories[0].turns) for group in groups] == [turn, turn]
        assert groups[0].trajectories[0].stop == Stop.POLICY_FAULT
