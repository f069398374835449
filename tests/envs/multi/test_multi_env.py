"""Environments with several seats: PettingZoo's tests, turns and rounds, guests, limits, private messages, views."""

import math
import pickle
import re
import warnings
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, parallel_seed_test, render_test, seed_test

import envs
from envs.checks.env_under_test import EnvUnderTest
from envs.checks.seats import privacy
from envs.env import Env
from envs.multi.iterated_dilemma import IteratedDilemma
from envs.multi.kuhn import Kuhn
from envs.multi.match import play_match
from envs.multi.multi_env import MultiEnv
from envs.multi.parallel import ParallelView
from envs.multi.round import Round
from envs.multi.teams.coder_tester import CoderTester
from envs.rows import ROWS
from envs.types import Task, assistant, final_line, text, user

MULTI_ROWS = [row for row in ROWS if row.id.startswith("multi/")]


class Lifeboat(MultiEnv):
    """Every seat names a digit; the lowest leaves; a guest joins after two rounds."""

    seats, guests = ("player_0", "player_1", "player_2", "guest_0"), ("guest_0",)

    def tasks(self, split):
        return [Task(f"{split}/0", (user(f"a digit, {split}"),))]

    def start(self):
        here = self.seats[:3]
        return Round({seat: (user(f"a digit. secret {seat}"),) for seat in here}, to_move=here)

    def reply(self, replies):
        digits = {seat: final_line(message) for seat, message in replies.items()}
        lowest = min(digits, key=lambda seat: (digits[seat], seat))
        stay = [seat for seat in self.live if seat != lowest] + ["guest_0"] * (self.rounds == 1)
        messages = {seat: (user("go on"),) for seat in stay}
        if len(stay) < 2:
            return Round(messages, {stay[0]: 1.0}, success={stay[0]: True})
        return Round(messages, {lowest: -1.0}, stay, leave=[lowest])

    def oracle(self, seat):
        return assistant("9")


class Eliminations(Lifeboat):
    """The lifeboat, whose rounds also hold what `later` says."""

    later = staticmethod(lambda env, outcome: outcome)

    def reply(self, replies):
        return self.later(self, super().reply(replies))


def game_class(row):
    return envs.entry(row.id).game


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*map(game_class, MULTI_ROWS), Lifeboat], ids=lambda kind: kind.__name__)
def test_pettingzoos_own_tests_pass(kind):
    api_test(kind(), 100)
    seed_test(kind, 100)
    render_test(kind)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [IteratedDilemma, CoderTester, Lifeboat])
def test_pettingzoos_parallel_tests_pass_where_seats_move_at_once(kind):
    assert isinstance(kind(), AECEnv) and isinstance(kind.parallel(), ParallelEnv)
    parallel_api_test(kind.parallel(), 100)
    parallel_seed_test(kind.parallel, 100)


@pytest.mark.parametrize("kind", [IteratedDilemma, CoderTester])
def test_pettingzoos_max_cycles_test_passes_where_the_limit_alone_ends_random_play(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        max_cycles_test(SimpleNamespace(env=kind, parallel_env=kind.parallel))


@pytest.mark.parametrize("row", MULTI_ROWS, ids=lambda row: row.id)
def test_the_limit_has_pettingzoos_name_too(row):
    assert game_class(row)(max_cycles=4).max_turns == game_class(row)(max_turns=4).max_turns == 4


def test_a_game_of_turns_has_no_parallel_view():
    with pytest.raises(RuntimeError, match="Kuhn is played in turns"):
        Kuhn.parallel().reset(seed=0)


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


def test_seats_that_move_together_read_nothing_of_each_other_before_all_have_replied():
    env = IteratedDilemma(style="short")
    env.reset(seed=0, options={"index": 0})
    before = env.observe("player_1")
    env.step("defect")
    assert env.agent_selection == "player_1" and env.observe("player_1") == before and env.rounds == 0
    env.step("cooperate")
    assert [text(m) for m in env.observe("player_1")] == ["cd 2/5"] and env.rounds == 1


def test_the_guide_stands_before_the_first_observation_of_each_seat_only():
    env = Kuhn()
    env.reset(seed=0, options={"index": 0})
    first = text(env.observe("player_0")[0])
    assert "speak first" in first and "Your card:" in first and env.observe("player_1") == ()
    env.step("check")
    second = env.observe("player_1")
    assert len(second) == 1 and "speak second" in text(second[0]) and "The other player checks." in text(second[0])
    env.step("bet")
    assert text(env.observe("player_0")[0]).startswith("Your card:")


def test_a_seat_without_replies_left_truncates_the_episode_for_all():
    env = IteratedDilemma(length=5, max_turns=2)
    env.reset(seed=0)
    for _ in range(4):
        env.step("cooperate")
    assert env.truncations == {"player_0": True, "player_1": True} and not env.to_move
    assert {info["stop"] for info in env.infos.values()} == {"turn_limit"}
    assert not any(info["success"] for info in env.infos.values())


def test_a_crash_a_stall_and_a_wrong_type_cost_only_the_seat_itself():
    for player, fault in [(lambda m, i: 1 / 0, "ZeroDivisionError"), (lambda m, i: 7, "TypeError: a reply is a text")]:
        records = play_match(Kuhn(), {"player_0": player, "player_1": lambda m, i: "bet"}, seed=0)
        assert fault in records["player_0"].fault and records["player_0"].total_reward == -1
        assert not records["player_1"].fault


@pytest.mark.parametrize("row", MULTI_ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("style", ["full", "short"])
def test_each_seat_can_be_played_alone_in_each_style(row, seat, style):
    name = game_class(row).seats[seat]
    env = gym.make(row.id, seat=name, style=style)
    assert isinstance(env.unwrapped, Env) and env.unwrapped.seat == name
    for seed in range(5):
        messages, _ = env.reset(seed=seed)
        assert messages and ("succeed" in text(messages[0])) == (style == "full")
        for reply in env.unwrapped.oracle():
            _, _, terminated, truncated, info = env.step(reply)
            assert info["valid"]
            if terminated or truncated:
                break
        assert terminated and info["stop"] == "terminated"


OPEN_GAMES = {"multi/TicTacToe-v0", "multi/ConnectFour-v0", "multi/IteratedDilemma-v0", "multi/SolverVerifier-v0"}


@pytest.mark.parametrize("row", [row for row in MULTI_ROWS if row.id not in OPEN_GAMES], ids=lambda row: row.id)
def test_the_doctor_finds_a_private_observation_that_another_seat_reads(row, monkeypatch):
    """In every game but those in which all is open, so that no game is found clean for want of secrets."""
    game = game_class(row)
    plain, secrets = game.unguided_messages, {}

    def leak(env, seat):
        """What the seat may read, and everything that only others might since the game began."""
        for other in env.seats:
            secrets.setdefault((env.task.id, other), set()).update(env.secrets(other))
        others = [user(secret) for other in env.others(seat) for secret in sorted(secrets[env.task.id, other])]
        return (*plain(env, seat), *others) if seat in env.to_move else plain(env, seat)

    under_test = EnvUnderTest(row.id, {}, 3)
    assert not [*privacy(under_test)]
    monkeypatch.setattr(game, "unguided_messages", leak)
    assert [fault for fault in privacy(under_test) if " reads " in fault]


def test_a_seat_may_be_drawn_by_the_seed():
    env = envs.make("multi/Kuhn-v0", seat="any").unwrapped
    drawn = [(env.reset(seed=seed), env.seat)[1] for seed in range(20)]
    assert set(drawn) == {"player_0", "player_1"}
    assert drawn == [(env.reset(seed=seed), env.seat)[1] for seed in range(20)]


def test_the_view_of_a_game_is_one_class_and_can_be_pickled():
    assert envs.entry("multi/Kuhn-v0") is Kuhn.single_agent() is envs.find("envs.multi.kuhn:Kuhn")
    env = envs.make("multi/Kuhn-v0", style="short", opponent="equilibrium:alpha=0.1").unwrapped
    env.reset(seed=3)
    copy = pickle.loads(pickle.dumps(env))
    assert copy.step("check")[:4] == env.step("check")[:4]


def test_arguments_of_the_game_and_of_the_view_are_known_by_name():
    assert envs.arguments(["rows=4", "opponent=minimax:depth=2"], envs.entry("multi/ConnectFour-v0")) == {
        "rows": 4,
        "opponent": "minimax:depth=2",
    }
    with pytest.raises(ValueError, match="did you mean 'columns'"):
        envs.make("multi/ConnectFour-v0", colums=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opponent": "minmax"}, "did you mean 'minimax'"),
        ({"opponent": "minimax:dept=2"}, "did you mean 'depth'"),
        ({"opponent": "minimax:depth=two"}, "opponent minimax: depth=two: must be an int"),
        ({"opponent": "minimax:2"}, "'2' is not of the form key=value"),
        ({"seat": "player_2"}, "'player_2'"),
        ({"max_turns": 0}, "max_turns must be at least 1"),
        ({"style": "long"}, "style 'long' is not one of"),
    ],
)
def test_wrong_arguments_are_named_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        envs.make("multi/TicTacToe-v0", **arguments)
    assert "\n" not in str(error.value)


GAME = """
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.procedural import enumerated
from envs.types import Task, assistant, final_line, user

class Echo(MultiEnv):
    '''Both say the word.'''
    teammates, default_opponent = True, "oracle"
    def tasks(self, split):
        return enumerated(split, 300, lambda i: Task("", (user(f"say {100 + i}"),), str(100 + i)), key="Echo")
    def reply(self, replies):
        ((seat, message),) = replies.items()
        right = final_line(message) == self.task.answer
        if not right or seat == "player_1":
            return Round({}, dict.fromkeys(self.seats, float(right)), success=dict.fromkeys(self.seats, right))
        return Round({"player_1": (user("your turn"),)}, to_move=("player_1",))
    def oracle(self, seat):
        return assistant(self.task.answer)

def shout(env, seat, rng):
    return env.task.answer
"""


def test_a_class_of_a_file_and_a_registered_one_are_environments(tmp_path):
    path = tmp_path / "echo_game.py"
    path.write_text(GAME)
    env = envs.make(f"{path}:Echo", opponent=f"{path}:shout")
    env.reset(seed=0)
    assert env.step(env.unwrapped.task.answer)[1:3] == (1.0, True)
    with pytest.raises(ValueError, match=r"unknown function 'whisper' in .*; there are: shout"):
        envs.make(f"{path}:Echo", opponent=f"{path}:whisper")
    envs.register("multi/KuhnAgain-v0", "envs.multi.kuhn:Kuhn", style="short")
    envs.register("multi/KuhnAgain-v0", "envs.multi.kuhn:Kuhn", style="short")
    try:
        assert gym.make("multi/KuhnAgain-v0").unwrapped.style == "short"
    finally:
        del gym.registry["multi/KuhnAgain-v0"]


def test_a_parallel_view_reports_each_seat_and_takes_silence_for_a_missing_action():
    env = ParallelView(IteratedDilemma(style="short", length=2))
    env.reset(seed=0)
    _, rewards, terminations, _, infos = env.step({"player_0": "defect"})
    assert rewards == {"player_0": 0.5, "player_1": 0.0} and infos["player_1"]["valid"] is False
    _, _, terminations, _, infos = env.step({"player_0": "defect", "player_1": "defect"})
    assert all(terminations.values()) and not env.agents and infos["player_0"]["success"]


def test_an_episode_must_begin_before_a_step():
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        Kuhn().step("bet")
