"""Environments with several seats: PettingZoo's tests, turns and rounds, guests, limits, private messages, views."""

import pickle
import warnings
from types import SimpleNamespace

import gymnasium as gym
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
from envs.multi.parallel import ParallelView
from envs.multi.teams.coder_tester import CoderTester
from envs.rows import ROWS
from envs.types import text, user
from tests.support.seats import Lifeboat

MULTI_ROWS = [row for row in ROWS if row.id.startswith("multi/")]


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


@pytest.mark.parametrize("row", MULTI_ROWS, ids=lambda row: row.id)
def test_before_the_first_episode_and_for_other_seats_errors_say_what_is_wrong(row):
    env = game_class(row)()
    for read in (env.last, lambda: env.observe(env.possible_agents[0])):
        with pytest.raises(gym.error.ResetNeeded, match=r"no episode is running; call reset\(\) first"):
            read()
    env.reset(seed=0)
    for ask in (env.observe, env.observation_space, env.action_space):
        with pytest.raises(ValueError, match=f"no seat 'nobody'; seats are {env.possible_agents[0]}"):
            ask("nobody")


def test_a_game_of_turns_has_no_parallel_view():
    with pytest.raises(RuntimeError, match="Kuhn is played in turns"):
        Kuhn.parallel().reset(seed=0)


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


def test_an_opponent_that_ends_every_game_before_the_seat_moves_is_named():
    env = envs.make("multi/TicTacToe-v0", seat="player_1", opponent="noop")
    with pytest.raises(RuntimeError, match=r"player_1 was never to move .* opponent=noop ends them first"):
        env.reset(seed=0)


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


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ({"player_0": "cooperate", "player_1": None}, TypeError, "None"),
        ({"player_0": "cooperate", "player1": "cooperate"}, ValueError, "no seat 'player1'; seats are player_0, play"),
        ("cooperate", TypeError, "'cooperate' are no dict"),
    ],
)
def test_a_parallel_view_refuses_actions_before_any_seat_moves(actions, error, message):
    game = IteratedDilemma.parallel(style="short")
    game.reset(seed=0)
    with pytest.raises(error, match=message):
        game.step(actions)
    _, rewards, _, _, infos = game.step({"player_0": "defect", "player_1": "cooperate"})
    assert rewards["player_0"] > 0 == rewards["player_1"] and "'dc'" in repr(infos["player_0"]["state"])


def test_a_parallel_view_must_be_reset_first():
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        IteratedDilemma.parallel().step({"player_0": "cooperate"})


def test_an_episode_must_begin_before_a_step():
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        Kuhn().step("bet")
