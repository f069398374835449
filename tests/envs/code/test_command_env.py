"""What environments with one command per turn have in common."""

import re

import pytest

from envs.code.repo import Repo
from envs.code.shell import Shell


@pytest.mark.parametrize("env", [Repo, Shell])
@pytest.mark.parametrize(
    "arguments, word",
    [({"level": 4}, "level 4 is outside 0..3"), ({"shown": -1}, "shown -1"), ({"timeout_s": 0}, "timeout_s must be above"), ({"timeout_s": float("inf")}, "not inf"),
     ({"sandbox": "locl"}, "did you mean 'local'"), ({"spare": True}, "spare True")],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(env, arguments, word):
    with pytest.raises(ValueError, match=re.escape(word)):
        env(**arguments)


@pytest.mark.parametrize("env", [Repo, Shell])
def test_max_turns_are_those_of_the_level_and_the_spare_ones(env):
    assert [env(level=level, spare=2).max_turns for level in range(4)] == [turns + 2 for turns in env.level_turns]
    assert env(style="short").tools == () and env(level=1).tools == env.tool_schemas and env(max_turns=9).max_turns == 9
