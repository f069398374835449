"""Gymnasium's own games by their ids: words, actions, limits, success, determinism, snapshots, and faults."""

import inspect

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import envs
from envs.__main__ import main
from envs.checks import contract, rewards, run_check
from envs.checks.env_under_test import EnvUnderTest
from tests.support.games import obs_text, play_replies, step_replies
from tests.support.interop import train_and_evaluate

CARTPOLE = "gymnasium:CartPole-v1"


class Scripted(gymnasium.Env):
    """Counts to three; `info` and rewards as the constructor says. A reply `2` makes it fail."""

    action_space = spaces.Discrete(3)

    def __init__(self, reward=0.0, info=None, truncate_at=99, observation_space=None):
        self.observation_space = observation_space or spaces.Discrete(100)
        self.reward, self.info, self.truncate_at = reward, info or {}, truncate_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._observation(), {}

    def step(self, action):
        if action == 2:
            raise OSError("the simulator is gone")
        self.count += 1
        over = self.count == 3
        return self._observation(), self.reward if over else 0.0, over, self.count >= self.truncate_at, self.info

    def _observation(self):
        space = self.observation_space
        return self.count if isinstance(space, spaces.Discrete) else np.zeros(space.shape)


gymnasium.register("Scripted-v0", Scripted)


class OneStep(gymnasium.Env):
    """Shows a number.

    ## Description
    Pick the shown
    number.
    """

    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(4, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(2))
        return self.number, {}

    def step(self, action):
        return self.number, float(action == self.number + 1), True, False, {}


gymnasium.register("OneStep-v0", OneStep)


def scripted(*, words=None, **game_args):
    return envs.make("gymnasium:Scripted-v0", game_args=game_args, **(words or {}))


def describe_as_count(game, observation):
    return f"{observation} counted by {type(game.unwrapped).__name__}"


def test_the_opening_says_goal_legend_form_limit_and_success():
    env = envs.make(CARTPOLE, max_turns=7)
    rules, board = env.reset(seed=0)[0]
    assert (rules["role"], board["role"]) == ("system", "user")
    for phrase in (
        "does not fall over",
        "left, right",
        "alone on the last line",
        "for example:\nleft\n",
        "after 7 turns",
    ):
        assert phrase in rules["content"]
    assert "uses up a turn" in rules["content"] and "counts as a success if" in rules["content"]
    assert board["content"].startswith("cart position ") and "pole angular velocity" in board["content"]


def test_an_id_that_a_module_registers(tmp_path, monkeypatch):
    (tmp_path / "registers.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('mine/Lake-v1', 'gymnasium.envs.toy_text:FrozenLakeEnv', max_episode_steps=7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = envs.make("gymnasium:registers:mine/Lake-v1", reward="success")
    assert env.unwrapped.max_turns == 7 and env.reset(seed=0)[0]


def test_the_short_style_is_the_observation_alone():
    env = envs.make(CARTPOLE, style="short")
    (board,) = env.reset(seed=0)[0]
    assert len([float(word) for word in board["content"].split()]) == 4


def test_a_reply_may_think_first_and_junk_costs_a_turn():
    env = envs.make(CARTPOLE)
    opening = env.reset(seed=0)[0][-1]["content"]
    thinking = env.step("It tilts left, so I could go right.\nBut no:\n\nleft")
    assert thinking[4]["valid"] and thinking[1] == 1.0 and obs_text(thinking) != opening
    for junk in ("", "left or right", "jump", "left\nright left", "\x00" * 100, "a" * 100_000):
        turn = env.step(junk)
        assert not turn[4]["valid"] and turn[1] == 0.0 and obs_text(turn).endswith(obs_text(thinking))
        assert "left, right" in obs_text(turn)


def test_names_labels_goal_and_legend_come_from_the_user():
    env = envs.make(CARTPOLE, actions="links, rechts", labels="a,b,c,d", goal="Balance.", legend="Four numbers.")
    rules, board = env.reset(seed=0)[0]
    assert rules["content"].startswith(
        "Balance.\n\nFour numbers.\n\nEach turn you choose one of these actions: links, rechts."
    )
    assert board["content"].startswith("a 0.") or board["content"].startswith("a -0.")
    assert env.step("rechts")[4]["valid"]


def test_a_function_of_the_user_describes_observations(tmp_path):
    path = tmp_path / "words.py"
    path.write_text("def tell(game, observation):\n    return f'{len(observation)} numbers'\n")
    assert envs.make(CARTPOLE, describe=f"{path}:tell").reset(seed=0)[0][-1]["content"] == "4 numbers"
    here = f"{__name__}:describe_as_count"
    assert scripted(words={"describe": here}).reset(seed=0)[0][-1]["content"] == "0 counted by Scripted"


@pytest.mark.parametrize(
    "rule, reward, info, expected",
    [
        ("reward", 0.0, {}, False),
        ("reward", 1.0, {}, True),
        ("end", -1.0, {}, True),
        ("last", 1.0, {}, False),
        ("reward", 1.0, {"is_success": np.bool_(False)}, False),
        ("last", 0.0, {"success": True}, True),
    ],
)
def test_success_is_what_the_game_says_or_the_rule(rule, reward, info, expected):
    turns = play_replies(scripted(words={"success": rule}, reward=reward, info=info), ["0"] * 5)
    assert len(turns) == 3 and turns[-1][4]["success"] is expected and turns[-1][4]["stop"] == "terminated"
    assert turns[-1][1] == reward


def test_junk_does_not_survive_to_a_win():
    env = envs.make(CARTPOLE, max_turns=3)
    assert play_replies(env, ["left", "right", "left"])[-1][4]["success"]
    assert not play_replies(env, ["junk"] * 3)[-1][4]["success"]
    assert not play_replies(env, ["left", "junk", "right"])[-1][4]["success"]


def test_limits_truncate_ours_and_the_game_s():
    assert envs.make(CARTPOLE).max_turns == gymnasium.spec("CartPole-v1").max_episode_steps
    ours, theirs = scripted(words={"max_turns": 2}), scripted(truncate_at=2)
    for env in (ours, theirs):
        turns = play_replies(env, ["0"] * 5)
        assert len(turns) == 2 and turns[-1][2:4] == (False, True) and turns[-1][4]["stop"] == "turn_limit"


def test_reward_can_be_success_alone():
    env = envs.make(CARTPOLE, max_turns=3, reward="success")
    turns = play_replies(env, ["left", "right", "left"])
    assert [turn[1] for turn in turns] == [0.0, 0.0, 1.0] and turns[0][4]["metrics"] == {"points": 1.0}
    turns = play_replies(env, ["left", "junk", "right"])
    assert [turn[4]["metrics"]["points"] for turn in turns] == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "spec", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "Taxi-v4", "Blackjack-v1", "FrozenLake-v1"]
)
def test_same_seed_same_episode_in_turns_with_another(spec):
    def episode(env, other=None):
        rng, log = np.random.default_rng(1), [env.reset(seed=3)[0]]
        if other:
            other.reset(seed=4)
        for _ in range(20):
            log.append(env.step(env.random(rng)))
            if other and log[-1][4].get("stop") is None:
                turn = other.step(other.random(np.random.default_rng(2)))
                if turn[2] or turn[3]:
                    other.reset(seed=5)
            if log[-1][2] or log[-1][3]:
                break
        return log

    env, other = envs.make(f"gymnasium:{spec}"), envs.make(f"gymnasium:{spec}")
    assert episode(env) == episode(env) == episode(env, other)
    assert all(turn[4]["valid"] for turn in episode(env)[1:])


def test_a_snapshot_goes_on_like_the_original_any_number_of_times():
    env = envs.make(CARTPOLE, max_turns=9)
    play_replies(env, ["left", "right"])
    moment = env.snapshot()
    first = step_replies(env, ["left"] * 9)
    for _ in range(2):
        env.reset(seed=0)
        env.restore(moment)
        assert step_replies(env, ["left"] * 9) == first
    assert len(first) == 7


def test_the_doctor_passes_a_game_of_one_step_whose_actions_are_numbers():
    result = run_check(rewards.attacks, EnvUnderTest("gymnasium:OneStep-v0"))
    assert not result.faults and not result.lack


def test_the_doctor_names_the_line_of_the_game():
    line = 1 + inspect.getsourcelines(Scripted.step)[1] + 1
    (fault,) = run_check(contract.info_keys, EnvUnderTest("gymnasium:Scripted-v0", tasks=1)).faults
    assert fault == f"OSError: the simulator is gone ({__file__}, line {line})"


def test_the_description_may_end_the_docstring():
    assert envs.make("gymnasium:OneStep-v0").reset(seed=0)[0][0]["content"].startswith("Pick the shown number.\n\n")


def test_a_fault_of_the_game_is_no_outcome():
    env = scripted()
    env.reset(seed=0)
    with pytest.raises(OSError, match="simulator is gone"):
        env.step("2")
    for reward in (float("nan"), "1.0", None):
        broken = scripted(reward=reward)
        broken.reset(seed=0)
        with pytest.raises(RuntimeError, match=f"paid the reward {reward!r}, which is no finite number"):
            step_replies(broken, ["0"] * 3)


@pytest.mark.parametrize(
    "words, message",
    [
        ({"actions": "left,right,up"}, "3 names (left, right, up) for 2 actions"),
        ({"actions": "left,LEFT"}, "must differ"),
        ({"labels": "a,b"}, "2 labels for an observation of 4 numbers"),
        ({"success": "win"}, "is not one of reward, end, last"),
        ({"reward": "none"}, "is not one of game, success"),
        ({"max_turns": 0}, "max_turns must be at least 1, not 0"),
        ({"style": "long"}, "is not one of full, short"),
        ({"describe": "math:cso"}, "did you mean 'cos'?"),
        ({"game_args": {"gravity": 1}}, "gravity"),
    ],
)
def test_wrong_arguments_are_named_in_one_line(words, message):
    with pytest.raises(ValueError) as error:
        envs.make(CARTPOLE, **words)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_an_observation_that_is_no_text_asks_for_a_description():
    with pytest.raises(ValueError, match="name a function that describes it"):
        scripted(observation_space=spaces.Box(0, 1, (9, 9)))


@pytest.mark.parametrize(
    "words, message",
    [
        (["gymnasium:CartPol-v1"], "CartPole"),
        (["gymnasium:"], "names no environment"),
        ([CARTPOLE, "--env-arg", "acton=a"], "did you mean 'actions'?"),
    ],
)
def test_mistakes_on_the_command_line(words, message, capsys):
    assert main(["play", *words]) == 2
    output = capsys.readouterr()
    assert message in output.err and output.err.count("\n") == 1


def test_cartpole_trains_and_evaluates(tmp_path):
    train_and_evaluate(tmp_path, CARTPOLE, "max_turns=6")
