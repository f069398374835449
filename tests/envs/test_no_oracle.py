"""An environment without an oracle is tested as far as random replies go, and the report names what was not tested."""

import pytest

from envs.checks import CheckFailure, check_env
from envs.env import Env
from envs.types import Outcome, Task, user

PATH = f"{__file__}:"


class NoOracle(Env):
    """Say yes."""

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"Question {i} of {split}: do you agree?"),)) for i in range(3)]

    def reply(self, action):
        is_right = action["content"] == "yes"
        return Outcome(reward=float(is_right), terminated=True, success=is_right)


class PaysForNothing(NoOracle):
    """Say anything."""

    def reply(self, action):
        return Outcome(reward=1.0, terminated=True, success=True)


def test_what_needs_an_oracle_is_not_tested():
    results = {result.name: result for result in check_env(f"{PATH}NoOracle")}
    for name in ("oracle", "thinking_aloud", "random_floor"):
        assert "no oracle" in results[name].lack
    for name in ("noop_and_junk", "determinism", "independence", "info_keys", "limits"):
        assert not results[name].lack


def test_faults_are_found_without_an_oracle():
    with pytest.raises(CheckFailure, match="noop_and_junk") as failure:
        check_env(f"{PATH}PaysForNothing")
    assert not any(result.faults for result in failure.value.results if result.name == "oracle")
