"""Repositories to fix: the commands, which repositories pass, and what no submission can fake."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any, ClassVar

import pytest

from envs.checks import contract, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.code.repo import Repo
from envs.code.repo_tools.commands import TOOLS, parse_command
from envs.tools.tool_calls import Command, command_as_call
from envs.types import Task, assistant, text
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies
from tests.support.sandbox_hosts import why_not

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
TESTS = """\
def test_more():
    from b import more

    assert more(2) == 5


def test_no():
    from a import add

    assert add(2, 2) == 4
"""
ONE: dict[str, Any] = {
    "files": {
        "a.py": "def add(x, y):\n    return x * y\n",
        "b.py": "from a import add\n\n\ndef more(x):\n    return x + 3\n\n\ndef most(x):\n    return add(x, 9)\n",
        "tests.py": TESTS,
    },
    "issue": "add(3, 4) is 12, not 7",
    "fix": ["a.py", "return x * y", "return x + y"],
    "trail": ["a.py"],
    "cases": repr([("a.add", (5, 6), 11), ("a.add", (0, 7), 7), ("b.more", (4,), 7), ("b.most", (1,), 10)]),
}
FIX = "edit a.py\nreturn x * y\n=>\nreturn x + y"


@pytest.fixture(autouse=True)
def possible() -> None:
    if reason := why_not("local"):
        pytest.skip(reason)


class OneRepo(Repo):
    """A repository of two modules, one of which multiplies where it should add."""

    data: ClassVar[dict[str, Any]] = ONE

    def tasks(self, split):
        return [Task(f"{split}/0", answer=FIX, metadata=self.data)]


def results(*replies, **arguments):
    """The observation after each of these replies."""
    with OneRepo(style="short", max_turns=50, **arguments) as env:
        return [obs_text(turn) for turn in play_replies(env, replies)]


def share(*replies):
    """The share of the hidden tests that pass after these replies, which earn 1 for all and else 0."""
    with OneRepo(style="short", max_turns=50) as env:
        *_, (_, reward, terminated, _, info) = play_replies(env, [*replies, "submit"])
    assert terminated and (reward == 1.0) == info["success"] == (info["metrics"]["passed"] == 1.0)
    return info["metrics"]["passed"]


def test_a_repository_is_read_fixed_and_submitted():
    with OneRepo(style="short") as env:
        opening, info = env.reset(seed=0)
        assert opening == ({"role": "user", "content": "add(3, 4) is 12, not 7"},) and info["answer"] == FIX
        turns = step_replies(env, ["read a.py", FIX, "submit"])
    assert [obs_text(turn) for turn in turns] == ["def add(x, y):\n    return x * y", "ok", ""] and is_won(turns)
    assert turns[-1][4]["metrics"] == {"edits": 1, "runs": 0, "failed": 0, "passed": 1}


def test_the_commands_show_files_lines_and_matches():
    assert results("list", "read b.py 4-5", "read b.py 9", "read b.py 40", "search add", "search  x *", "search xyz") == [
        "a.py\nb.py\ntests.py", "def more(x):\n    return x + 3", "    return add(x, 9)", "no such lines",
        "a.py:1: def add(x, y):\nb.py:1: from a import add\nb.py:9: return add(x, 9)\ntests.py:8: from a import add\n"
        "tests.py:10: assert add(2, 2) == 4",
        "a.py:2: return x * y", "none",
    ]  # fmt: skip


def test_run_runs_the_visible_tests_or_a_program_on_a_copy_of_the_files():
    assert results("run", "edit b.py\nx + 3\n=>\nx + 1", "run", "run print(1)\nfrom b import most\nprint(most(2))",
                "run\nimport nosuch", "run\nopen('a.py', 'w').write('')", "read a.py 1") == [
        "2 passed", "ok", "test_more: AssertionError\n1 passed", "1\n18",
        "Traceback (most recent call last):\n  File \"main.py\", line 1, in <module>\n    import nosuch\n"
        "ModuleNotFoundError: No module named 'nosuch'\nexit 1", "ok", "def add(x, y):",
    ]  # fmt: skip
    assert results("write tests.py\nx =", "run")[1].startswith("no tests: SyntaxError") and results("run exit(3)") == [
        "exit 3"
    ]


def test_output_is_the_same_in_every_process_and_cut_in_the_middle():
    assert results("run print(object())") == ["<object object at 0x0>"]
    assert results("run print('a' * 50 + 'b' * 50)", shown=6) == ["aaa [cut] bbb"]


@pytest.mark.parametrize(
    "code, end",
    [("while True: pass", "stopped: too slow"), ("import time; time.sleep(60)", "stopped: too slow"),
     ("while True: print(1)", "stopped: too much output"), ("x = [0] * 10**10", "MemoryError\nexit 1"),
     ("import os; os.kill(os.getpid(), 9)", "stopped: it died")],
)  # fmt: skip
def test_a_program_that_asks_for_too_much_is_stopped(code, end):
    assert results(f"run {code}", timeout_s=1.5)[0].endswith(end)


@pytest.mark.parametrize(
    "reply, word",
    [("edit a.py\nx - y\n=>\nx + y", "error: a.py does not have this text"),
     ("edit b.py\nx\n=>\ny", "error: b.py has this text 4 times"), ("read c.py", "error: unknown file 'c.py'"),
     ("read b.py x", "error: lines 'x' are not like 3 or 3-9"), ("write ../a.py\npass", "error: path '../a.py' is not"),
     ("write /a.py\npass", "error: path '/a.py'"), ("write a.py/b.py\npass", "would be a file and a folder"),
     ("write c.py\n" + "x" * 100_001, "error: no room"), ("write .pth\nimport os", "error: path '.pth'")],
)  # fmt: skip
def test_a_command_that_cannot_be_carried_out_is_answered_with_the_reason(reply, word):
    with OneRepo(style="short") as env:
        turn = play_replies(env, [reply])[0]
    assert word in obs_text(turn) and turn[4]["valid"] and turn[4]["metrics"]["failed"] == 1


@pytest.mark.parametrize(
    "reply", ["", "fix it", "submit now", "list all", "read", "edit a.py\nx * y\nx + y", "edit a.py", "edit\na\n=>\nb",
              "edit a.py\n=>\nx", "edit a.py\na\n=>\nb\n=>\nc", "write", "search", "submit\nread a.py", "Submitted"],
)  # fmt: skip
def test_a_reply_without_a_command_is_invalid(reply):
    with OneRepo(style="short") as env:
        turn = play_replies(env, [reply])[0]
    assert obs_text(turn) == "?" and not turn[4]["valid"]


def test_commands_are_accepted_in_several_forms():
    assert results("<think>hm</think>\nread a.py  1 - 1", "```\nlist\n```", "edit a.py\n```python\nx * y\n=>\nx + y\n```",
                "read a.py", "write c/d.py\n```python\nz = 1\n```", "read c/d.py", "run\n```py\nprint(2)\n```") == [
        "def add(x, y):", "a.py\nb.py\ntests.py", "ok", "def add(x, y):\n    return x + y", "ok", "z = 1", "2",
    ]  # fmt: skip


def test_every_right_fix_passes_and_breaking_something_else_does_not():
    assert share(FIX) == share("write a.py\ndef add(*numbers):\n    return sum(numbers)") == 1.0
    assert share() == 0.25 and share(FIX, "edit b.py\nx + 3\n=>\nx + 4") == 0.75
    assert share("write a.py\ndef add(x, y):\n    return 7 if (x, y) == (3, 4) else x * y") < 1.0


@pytest.mark.parametrize(
    "module",
    ["class Yes:\n    def __eq__(self, other): return True\ndef add(x, y): return Yes()", "import os\nos._exit(0)",
     "def add(x, y):\n    import os\n    os._exit(0)", "raise SystemExit(0)", "def add(x, y): return True",
     "def add(x, y): return float(x + y)", "class I(int):\n    pass\ndef add(x, y): return [x + y]",
     "import builtins\nbuiltins.repr = lambda x: '11'\ndef add(x, y): return x * y",
     "import sys\nsys.modules['__main__'].__dict__['tagged'] = lambda *a: 11\ndef add(x, y): return 0",
     "import os, json\n[os.write(d, b'[\"value\", 11]\\n') for d in (1, 3, 4, 5)]\ndef add(x, y): return 0",
     "import gc\nfound = [o for o in gc.get_objects() if isinstance(o, list) and 11 in o]\ndef add(x, y): return found[0]",
     "def add(x, y):\n    while True: pass", "def add(x, y:\n    pass", ""],
    ids=range(14),
)  # fmt: skip
def test_no_submission_passes_without_the_right_values(module):
    assert share(f"write a.py\n{module}") <= 0.25


def test_tests_and_programs_of_the_policy_do_not_count():
    assert share("write tests.py\ndef test_all(): pass", "run", "write conftest.py\nimport os; os._exit(0)") == 0.25


def test_the_tools_can_be_called():
    with OneRepo(style="full", level=1, spare=5) as env:
        opening, info = env.reset(seed=0)
        assert info["tools"] == list(TOOLS) and "call the tool of the same name" in opening[0]["content"]
        assert opening[0]["content"].endswith("The issue:\nadd(3, 4) returns 12, but should return 7.")
        commands = [Command("read", {"path": "a.py", "lines": "2"}), Command("run", {}), Command("write", {"path": "a.py"}),
                Command("edit", {"path": "a.py", "old": "*", "new": "+"}), Command("submit", {})]  # fmt: skip
        turns = step_replies(env, [command_as_call(call, number) for number, call in enumerate(commands)])
    assert turns[0][0] == ({"role": "tool", "tool_call_id": "call00000", "content": "    return x * y"},)
    assert (obs_text(turns[1]), obs_text(turns[3])) == ("2 passed", "ok") and is_won(turns)
    assert obs_text(turns[2]).startswith("error: write needs 'content', a text. Reply with one command")


def test_prose_states_the_form_of_replies_and_why_one_was_refused():
    with OneRepo(style="v1") as env:
        opening, _ = env.reset(seed=0)
        assert "`edit PATH`" in opening[0]["content"] and "a.py, b.py, tests.py" in opening[0]["content"]
        assert obs_text(env.step("hello")).startswith("error: no command; Each turn reply with one of: `list`")


def test_the_state_is_the_files_the_views_and_the_turns_left():
    with OneRepo(style="short", max_turns=9) as env:
        ways = [["read a.py", "read b.py"], ["read b.py", "read a.py"], ["read b.py", "read b.py"], ["read a.py", FIX]]
        states = [play_replies(env, way)[-1][4]["state"] for way in ways]
        env.reset(seed=0)
        assert states[0] == states[1] and len(set(states)) == 3 and states[0].endswith("left 7")
        assert states[0].split()[1] == env.state().split()[1] != states[3].split()[1]


@pytest.mark.parametrize("level, turns", [(0, 4), (1, 5), (2, 8), (3, 5)])
def test_the_oracle_fixes_repositories_of_every_level(level, turns):
    with Repo(style="short", level=level) as env:
        assert env.max_turns == turns
        for index in range(0, 200, 25):
            episode = play_oracle(env, index)
            assert is_won(episode) and len(episode) < turns
            assert episode[-1][4]["metrics"] == {"edits": 1, "runs": 0, "failed": 0, "passed": 1}


def test_visible_tests_pass_before_the_fix():
    with Repo(style="short", level=2) as env:
        for index in range(5):
            assert re.fullmatch(r"[1-4] passed", obs_text(play_replies(env, ["run"], index=index, split="test")[0]))


def test_the_oracle_corrects_other_changes_too():
    with OneRepo(style="short", spare=5) as env:
        play_replies(env, ["write a.py\npass", "edit b.py\nx + 3\n=>\nx"])
        assert is_won(step_replies(env, env.oracle()))


def test_a_level_0_episode_is_short_in_bytes():
    with Repo(style="short") as env:
        for index in range(20):
            play_oracle(env, index)
            assert sum(len(message["content"]) for message in env.dialogue) <= 125


def test_random_replies_do_not_win():
    with Repo(style="short") as env:
        assert random_win_rate(env, 20) == 0


def test_a_copy_between_two_turns_goes_on_alike():
    with OneRepo(style="short") as env:
        env.reset(seed=0)
        env.step(FIX)
        with pickle.loads(pickle.dumps(env)) as twin, copy.deepcopy(env) as other:
            assert twin.step("submit") == other.step("submit") == env.step("submit")


def test_prose_and_tools_keep_the_contract_too():
    arguments = {"style": "full", "level": 3}
    for check in (contract.info_keys, rewards.attacks):
        assert not list(check(EnvUnderTest("envs.code.repo:Repo", arguments)))


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("`list`", ("list", {})),
        ("**submit**", ("submit", {})),
        ("Submit.", ("submit", {})),
        ("- list", ("list", {})),
        ("Action: submit", ("submit", {})),
        ("Read owl.py", ("read", {"path": "owl.py", "lines": ""})),
        ("read `owl.py`", ("read", {"path": "owl.py", "lines": ""})),
        ("`read owl.py 3-9`", ("read", {"path": "owl.py", "lines": "3-9"})),
        ("I read the file first.\nRead `owl.py`", ("read", {"path": "owl.py", "lines": ""})),
        ('{"name": "read", "arguments": {"path": "owl.py"}}', ("read", {"path": "owl.py"})),
        ('I am done.\n{"name": "submit"}', ("submit", {})),
        ('write a.json\n{"name": "submit"}', ("write", {"path": "a.json", "content": '{"name": "submit"}\n'})),
        ("I have changed it.\nRun the tests.", ("run", {"code": ""})),
        ("run tests\nprint(3)", ("run", {"code": "tests\nprint(3)"})),
        ('run\nprint({"name": 1})', ("run", {"code": 'print({"name": 1})'})),
    ],
)
def test_a_command_is_read_as_models_write_it(reply: str, command: tuple[str, dict[str, str]]) -> None:
    assert parse_command(assistant(reply)) == command


@pytest.mark.parametrize("level", [0, 1])
def test_instructions_offer_visible_tests_only_where_there_are_some(level: int) -> None:
    env = Repo(level=level, style="full")
    prompt, _ = env.reset(seed=0)
    has_tests = "tests.py" in env.task.metadata["files"]
    assert ("run: runs the visible tests" in text(prompt[0])) is has_tests
    assert "run, and on the next lines a Python program" in text(prompt[0])
    env.close()


def test_level_0_offers_no_tests_and_a_run_of_them_says_that_there_are_none() -> None:
    with Repo(level=0, style="full") as env:
        _, info = env.reset(seed=0)
        (run,) = [tool["function"] for tool in info["tools"] if tool["function"]["name"] == "run"]
        assert run["description"] == "Run a Python program; there are no tests to run."
        turn = env.step(command_as_call(Command("run", {"code": ""}), 0))
        assert obs_text(turn) == "error: there are no tests to run; put a Python program after `run`"
        assert turn[4]["metrics"]["runs"] == 0 and turn[4]["metrics"]["failed"] == 1
    with Repo(level=0, style="short") as env:
        env.reset(seed=0)
        assert obs_text(env.step("run")).startswith("error: there are no tests to run")
