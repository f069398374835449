"""What a game of several seats may return, and who may sit in it."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from envs.multi.match import play_match
from envs.types import text
from tests.support.seats import Lifeboat


class Eliminations(Lifeboat):
    """The lifeboat, whose rounds also hold what `later` says."""

    later = staticmethod(lambda env, outcome: outcome)

    def reply(self, replies):
        return self.later(self, super().reply(replies))


def test_seats_leave_and_a_guest_joins():
    digits = {"player_0": "1", "player_1": "5", "player_2": "7", "guest_0": "3"}
    env = Lifeboat()
    records = play_match(env, {seat: lambda m, i, d=d: d for seat, d in digits.items()}, seed=0)
    assert {seat: (len(r.replies), r.total_reward, r.success) for seat, r in records.items()} == {
        "player_0": (1, -1.0, False),
        "player_1": (2, -1.0, False),
        "player_2": (3, 1.0, True),
        "guest_0": (1, 0.0, False),
    }
    assert not env.agents
    for seat, record in records.items():
        read = [text(message) for messages in record.observations for message in messages]
        assert not [line for line in read if "secret" in line and seat not in line]


def played_lifeboat(monkeypatch, later):
    digits = {"player_0": "1", "player_1": "5", "player_2": "7", "guest_0": "3"}
    monkeypatch.setattr(Eliminations, "later", staticmethod(later))
    records = play_match(Eliminations(), {seat: lambda m, i, d=d: d for seat, d in digits.items()}, seed=0)
    return {seat: record.total_reward for seat, record in records.items()}


def test_a_seat_that_is_not_there_may_be_named_with_a_reward_of_0(monkeypatch):
    def all_named(env, outcome):
        return replace(outcome, rewards=dict.fromkeys(env.seats, 0) | dict(outcome.rewards))

    assert played_lifeboat(monkeypatch, all_named) == played_lifeboat(monkeypatch, lambda env, outcome: outcome)


@pytest.mark.parametrize(("seat", "round_"), [("player_0", 1), ("guest_0", 0)])
def test_a_reward_of_a_seat_that_is_not_there_is_named(monkeypatch, seat, round_):
    def paid(env, outcome):
        return replace(outcome, rewards={**outcome.rewards, seat: 0.5}) if env.rounds == round_ else outcome

    reason = rf"Round.rewards\['{seat}'\] is 0.5, but {seat} has left .* pay a seat in the round in which it leaves"
    with pytest.raises(ValueError, match=reason):
        played_lifeboat(monkeypatch, paid)


@pytest.mark.parametrize("name", ["rewards", "parts"])
def test_a_reward_before_any_reply_is_named_and_0_is_taken(monkeypatch, name):
    value = {"rewards": 0.5, "parts": {"bonus": 0.5}}[name]
    env, start = Lifeboat(), Lifeboat.start
    zeros = {"rewards": {"player_0": 0}, "parts": {"player_0": {"bonus": 0.0}, "player_1": {}}}
    monkeypatch.setattr(Lifeboat, "start", lambda env: replace(start(env), **zeros))
    env.reset(seed=0)
    monkeypatch.setattr(Lifeboat, "start", lambda env: replace(start(env), **{name: {"player_0": value}}))
    part = {"rewards": "", "parts": r"\['bonus'\]"}[name]
    reason = rf"Lifeboat: start\(\): Round.{name}\['player_0'\]{part} is 0.5, but no seat has replied yet; pay it in"
    with pytest.raises(ValueError, match=reason):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rewards": {"player_0": "1"}}, r"Round.rewards\['player_0'\] must be a number, not the str '1'"),
        ({"rewards": {"player_0": np.zeros(2)}}, r"Round.rewards\['player_0'\] must be a number, not a value of type"),
        ({"rewards": {"player_0": math.nan}}, r"Round.rewards\['player_0'\] is nan, not a finite number"),
        ({"parts": {"player_0": 0.5}}, r"Round.parts\['player_0'\] must be a dict of numbers"),
        ({"parts": {"player_0": {"bonus": ""}}}, r"Round.parts\['player_0'\]\['bonus'\] must be a number, not the str"),
    ],
)
def test_a_reward_before_any_reply_that_is_no_number_is_named_by_its_type(monkeypatch, changes, reason):
    start = Lifeboat.start
    monkeypatch.setattr(Lifeboat, "start", lambda env: replace(start(env), **changes))
    with pytest.raises((TypeError, ValueError), match=reason):
        Lifeboat().reset(seed=0)


def test_a_seat_that_leaves_and_is_to_move_is_named(monkeypatch):
    with pytest.raises(ValueError, match=r"Round.to_move and Round.leave both name 'player_0'"):
        played_lifeboat(monkeypatch, lambda env, outcome: replace(outcome, to_move=[*outcome.to_move, *outcome.leave]))


@pytest.mark.parametrize("seats", [("player ann", "bob-2"), ["çyd_3", "0"], ("x" * 60,)])
def test_harmless_names_of_seats_are_taken(monkeypatch, seats):
    monkeypatch.setattr(Lifeboat, "seats", seats)
    assert Lifeboat().possible_agents == [*seats]


@pytest.mark.parametrize(
    ("seats", "reason"),
    [
        *[
            ((name, "bob"), f"Lifeboat: {name!r} cannot name a seat; use up to 60 letters, digits, _ and -")
            for name in (
                "bob/2",
                "cyd=3",
                "a+b",
                "a.b",
                "a,b",
                "",
                "../x",
                " ann",
                "ann  lee",
                "ann\n",
                "a\tb",
                "-a",
                3,
            )
        ],
        (("x" * 61,), "cannot name a seat"),
        (("ann", "any"), "'any' cannot name this seat, because it means a drawn seat"),
        (("each", "ann"), "'each' cannot name this seat, because it means every seat, as in --role each"),
        (("agent",), "'agent' cannot name this seat, because it means the only seat of an environment of one agent"),
        (("ann", "ann", "cyd"), "Lifeboat: two seats have the name 'ann'"),
        ("ann", "Lifeboat: seats must be a tuple of names, not 'ann'; write ('ann',)"),
        ({"ann": 1}, "Lifeboat: seats must be a tuple of names, not {'ann': 1}"),
        ((), "Lifeboat: seats must be a tuple of names, not ()"),
    ],
)
def test_names_that_no_seat_can_have_are_refused_in_one_line(monkeypatch, seats, reason):
    monkeypatch.setattr(Lifeboat, "seats", seats)
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        Lifeboat()
    assert "\n" not in str(error.value)
