"""Gymnasium games whose observation, or its description, is None: a fault, except at the end of an episode."""

import gymnasium
import pytest
from gymnasium import spaces

import envs
from envs.checks import contract, run_check
from envs.checks.env_under_test import EnvUnderTest


class Texts(gymnasium.Env):
    """Shows two texts, the second of which is None by default; `flags` say whether the first step terminates or truncates."""

    observation_space, action_space = spaces.Text(9), spaces.Discrete(2)

    def __init__(self, texts=("pick", None), flags=(True, False)):
        self.texts, self.flags = texts, flags

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.texts[0], {}

    def step(self, action):
        return self.texts[1], 1.0, *self.flags, {}


gymnasium.register("Texts-v0", Texts)


def describe_length(game, observation):
    return f"{len(observation)} letters"


def describe_as_none(game, observation):
    return None


def describe_while_on(game, observation):
    return None if observation == "over" else observation


def play(words, **game_args):
    env = envs.make("gymnasium:Texts-v0", game_args=game_args, **words)
    env.reset(seed=0)
    return env.step("1")[1:4]


def test_an_observation_that_is_none_is_a_fault():
    with pytest.raises(RuntimeError, match="an observation is None, where the observation space is Text"):
        play({}, texts=(None, None))
    with pytest.raises(RuntimeError, match="an observation is None, where the observation space is Text"):
        play({}, flags=(False, False))
    with pytest.raises(RuntimeError, match="describes observations returned None"):
        play({"describe": f"{__name__}:describe_as_none"})
    gymnasium.register("Silent-v0", Texts, kwargs={"texts": (None, None)})
    result = run_check(contract.info_keys, EnvUnderTest("gymnasium:Silent-v0"))
    assert len(result.faults) == 1 and "an observation is None" in result.faults[0]


@pytest.mark.parametrize("words", [{}, {"describe": f"{__name__}:describe_length"}])
@pytest.mark.parametrize("flags", [(True, False), (False, True)])
def test_the_last_observation_may_be_none(words, flags):
    assert play(words, flags=flags) == (1.0, *flags)


def test_the_last_description_may_be_none():
    words = {"describe": f"{__name__}:describe_while_on"}
    assert play(words, texts=("pick", "over")) == (1.0, True, False)
