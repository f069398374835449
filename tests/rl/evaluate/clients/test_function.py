"""A function of a file as the policy of an evaluation: `--policy path/to/file.py:function`."""

import pytest

from envs.watchdog import WATCHDOG
from rl.cli import UserError
from rl.evaluate.__main__ import main
from rl.evaluate.report import Report

PLAYERS = """
import time


def counts(messages, tools, seed):
    messages.append("mine")
    return {"role": "assistant", "content": f"{len(messages)} {len(tools)}"}


def one(messages):
    return "7"


def number(messages, tools, seed):
    return 7


def steps(messages, tools, seed):
    yield "7"


def fails(messages, tools, seed):
    return messages[99]


def leaves(messages, tools, seed):
    raise SystemExit(3)


def nests(messages, tools, seed):
    arguments = {}
    for _ in range(3000):
        arguments = {"a": arguments}
    call = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def sleeps(messages, tools, seed):
    time.sleep(60)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "players.py"
    path.write_text(PLAYERS)
    return path


@pytest.mark.parametrize("more", [[], ["--workers", "1"]])
def test_a_function_plays_and_is_reported(file, tmp_path, more):
    result = tmp_path / "result.json"
    flags = ["--env", "math/Arithmetic-v0", "--env-arg", "style=short", "--env-arg", "level=1", "--episodes", "3"]
    assert main([*flags, "--policy", f"{file}:counts", "--json", str(result), *more]) == 0
    report = Report.from_json(result)
    assert report.errors == 0 and report.policy == f"{file}:counts"


def test_a_function_plays_a_benchmark(file, tmp_path):
    source = "def says(messages, tools, seed):\n    return str(seed)\n"
    file.write_text(source)
    result = tmp_path / "result.json"
    assert main(["--benchmark", "math-v2", "--policy", f"{file}:says", "--episodes", "1", "--json", str(result)]) == 0
    assert Report.from_json(result).errors == 0


@pytest.mark.parametrize(
    "name, word",
    [
        ("count", "unknown function 'count' in"),
        ("one", "is called with (messages, tools, seed): too many positional arguments"),
        ("steps", "must be a plain function that returns a reply"),
        ("number", "returned 7: an action is an assistant message or a str, not int"),
        ("fails", "line 23: IndexError: list index out of range"),
        ("leaves", "line 27: SystemExit: 3"),
        ("nests", "returned {'content': '', 'role': 'assistant', "),
        ("sleeps", "a reply took longer than 0.2 s (--patience)"),
    ],
)
def test_a_function_that_does_not_play_ends_the_command_in_one_line(file, name, word):
    flags = ["--env", "math/Arithmetic-v0", "--episodes", "2", "--patience", "0.2"]
    with pytest.raises(UserError) as caught, WATCHDOG.running("test"):
        main([*flags, "--policy", f"{file}:{name}"])
    assert word in str(caught.value) and "\n" not in str(caught.value)
