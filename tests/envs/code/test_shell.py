"""The shell: what a command sees and leaves, which trees reach the goal, and what no command can reach."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import numpy as np
import pytest

import sandboxes
from envs.checks import contract, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.code.shell import TOOLS, Shell, _parse_command
from envs.code.shell_tools import file_tree
from envs.code.shell_tools.file_tree import file, folder
from envs.code.shell_tools.goals import LEVELS
from envs.code.shell_tools.tree_builder import TreeBuilder
from envs.tools.tool_calls import Command, command_as_call
from envs.types import Task, assistant
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies
from tests.support.sandbox_hosts import why_not

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
START = {"a.txt": file("kiwi\n"), "b": folder(), "b/c.txt": file("plum\n"), "d.sh": file("echo hi\n")}
TARGET = {**START, "e.txt": file("fig\n", None)}


@pytest.fixture(autouse=True)
def possible() -> None:
    if reason := why_not("local"):
        pytest.skip(reason)


class OneTask(Shell):
    """Put fig in e.txt, unless a subclass has another target."""

    target: ClassVar[file_tree.Tree] = TARGET

    def tasks(self, split):
        data = {"goal": "put fig in e.txt", "tree": file_tree.to_json(START), "wanted": file_tree.to_json(self.target)}
        return [Task(f"{split}/0", answer="echo fig > e.txt", metadata={**data, "commands": ["echo fig > e.txt"]})]


def results(*replies, **arguments):
    """The observation after each of these replies."""
    with OneTask(style="short", max_turns=50, **arguments) as env:
        return [obs_text(turn) for turn in play_replies(env, replies)]


class Runnable(OneTask):
    """Make d.sh executable."""

    target: ClassVar[file_tree.Tree] = {**START, "d.sh": START["d.sh"]._replace(mode=0o755)}


def verdict(*commands, kind=OneTask):
    """Whether the task is done after these commands."""
    with kind(max_turns=50) as env:
        return is_won(play_replies(env, [*commands, "done"]))


def test_a_task_is_done_by_a_command_and_the_word_done():
    with OneTask(style="short") as env:
        opening, info = env.reset(seed=0)
        assert opening == ({"role": "user", "content": "put fig in e.txt"},) and info["answer"] == "echo fig > e.txt"
        turns = step_replies(env, ["echo fig > e.txt", "done"])
    assert [obs_text(turn) for turn in turns] == ["ok", ""] and is_won(turns)
    assert turns[0][4]["metrics"] == {"wrong": 0, "failed": 0} and turns[1][4]["rewards"] == {"goal": 1.0}


def test_a_command_shows_its_output_its_errors_and_its_exit_code():
    assert results("cat a.txt", "ls", "cat nosuch", "nosuch", "echo out; echo err >&2; exit 3", "kill -9 $$", "pwd") == [
        "kiwi", "a.txt\nb\nd.sh", "cat: nosuch: No such file or directory\nexit 1", "sh: 1: nosuch: not found\nexit 127",
        "out\nerr\nexit 3", "exit 137", "/box/work/files",
    ]  # fmt: skip


def test_a_long_output_is_cut_and_marked():
    assert results("seq 100", shown=5) == ["1\n2\n3 [cut]"]
    assert results("echo 12345; exit 1", shown=5) == ["12345\nexit 1"]


@pytest.mark.parametrize(
    "command, reason",
    [("yes", "too much output"), ("sleep 60", "too slow"), ("while :; do :; done", "too slow"),
     ("head -c 90000000 /dev/zero > x", "too much"), ("kill -9 $PPID", "too much"), ("seq 600 | xargs touch", "too much")],
)  # fmt: skip
def test_a_command_that_asks_for_too_much_is_stopped_and_changes_nothing(command, reason):
    with OneTask(style="short", timeout_s=1.5) as env:
        _, info = env.reset(seed=0)
        messages, reward, *_, after = env.step(f"echo fig > e.txt; {command}")
    assert messages[0]["content"] == f"stopped: {reason}" and reward == 0 and after["metrics"]["failed"] == 1
    assert after["state"] == info["state"].replace("left 3", "left 2") and after["metrics"]["wrong"] == 1


def test_a_command_starts_from_the_files_of_the_last_one_and_nothing_else():
    turns = results("cd b; X=1; touch /tmp/y /dev/shm/y; echo z > z; (sleep 100 &) ; setsid sleep 100 &",
                 "echo [$X]; ls /tmp /dev/shm; cat z; pgrep sleep", "pwd; cat b/z; ls -A ..")  # fmt: skip
    assert turns[1] == "[]\n/dev/shm:\n\n/tmp:\ncat: z: No such file or directory\nexit 1"
    assert turns[2] == "/box/work/files\nz\nfiles"


def test_a_command_that_the_system_refuses_is_answered():
    assert results("echo " + "x" * 300_000, "echo '\ud800'") == ["exit 126", "?"]


def test_a_process_left_behind_changes_nothing_later():
    assert not verdict("(sleep 0.2; echo fig > e.txt) & (setsid sh -c 'sleep 0.2; echo fig > e.txt' &)", "sleep 0.5")


def test_no_listing_shows_file_times():
    first, _, second = results("ls -l; stat -c %Y a.txt", "touch a.txt", "ls -l; stat -c %Y a.txt", shown=500)
    assert "-rw-r--r-- 1 box box  5  a.txt" in first and second == first


@pytest.mark.parametrize(
    "reply", ["$ echo fig > e.txt", "`echo fig > e.txt`", "I write it:\n```sh\necho fig > e.txt\n```\nThen done.",
              "<think>done?</think>\necho fig > e.txt", "printf fig > e.txt", "cat > e.txt <<X\nfig\nX",
              "for i in 1\ndo echo fig > e.txt\ndone"],
)  # fmt: skip
def test_commands_are_accepted_in_several_forms(reply):
    assert verdict(reply)


@pytest.mark.parametrize("reply", ["", "  ", "```\n```", "\0", "a\0b"])
def test_a_reply_without_a_command_is_invalid(reply):
    with OneTask(style="short") as env:
        turn = play_replies(env, [reply])[0]
    assert obs_text(turn) == "?" and not turn[4]["valid"] and turn[4]["metrics"]["failed"] == 0


@pytest.mark.parametrize(
    "command",
    ["touch e.txt", "echo figs > e.txt", "echo fig > e.txt; touch f", "echo fig > e.txt; rm b/c.txt", "mkdir e.txt",
     "echo fig > e.txt; echo kiwi >> a.txt", "echo fig > e.txt; printf kiwi > a.txt", "echo fig > e.txt; chmod 600 a.txt",
     "echo fig > /tmp/e; ln -s /tmp/e e.txt", "echo fig > b/e.txt", "echo fig > e.txt; chmod 700 b", "mkfifo e.txt",
     "echo fig > e.txt; ln -s a.txt f", "rm -rf ../files", "mv ../files ../x; ln -s /usr ../files", "echo fig"],
)  # fmt: skip
def test_every_other_tree_is_wrong(command):
    assert not verdict(command)


def test_the_mode_of_a_file_counts_if_it_existed_or_is_part_of_the_goal():
    assert verdict("chmod +x d.sh", kind=Runnable) and not verdict("chmod 777 d.sh", kind=Runnable)
    assert verdict("echo fig > e.txt; chmod 600 e.txt") and not verdict("true", kind=Runnable)


def test_unusual_names_modes_and_kinds_survive():
    strange = "touch -- \"$(printf 'a\\nb\\377')\" -rf ' '; mkdir -p x/y; echo 1 > x/y/z; chmod 0 x/y/z x; mkfifo p; ln -s . l"
    with OneTask(style="short") as env:
        env.reset(seed=0)
        step_replies(env, [strange, "true"])
        new_entries = {path: entry for path, entry in env._tree.items() if path not in START}
    assert new_entries == {
        "a\nb\xff": file(), "-rf": file(), " ": file(), "x": folder(0), "x/y": folder(), "x/y/z": file("1\n", 0),
        "p": file_tree.Entry("other", "", 0o644), "l": file_tree.Entry("link", ".", 0),
    }  # fmt: skip


def test_the_tools_run_commands_and_end_the_episode():
    with OneTask(style="full") as env:
        opening, info = env.reset(seed=0)
        assert info["tools"] == list(TOOLS) and "or call the tool `shell`" in opening[0]["content"]
        assert opening[0]["content"].endswith("The task:\nCreate a file e.txt that holds one line: fig")
        calls = [
            Command("shell", {"command": "echo fig > e.txt"}),
            Command("shell", {"command": " done"}),
            Command("done", {}),
        ]
        turns = step_replies(env, [command_as_call(call, number) for number, call in enumerate(calls)])
    assert turns[0][0] == ({"role": "tool", "tool_call_id": "call00000", "content": "ok"},)
    assert obs_text(turns[1]).startswith("error: to end the episode, call done. Reply") and is_won(turns)


@pytest.mark.parametrize(
    "name, arguments, word",
    [("bash", "{}", "unknown tool 'bash'"), ("shell", "{}", "shell needs 'command', a text"),
     ("shell", "x", "the arguments of shell are no JSON object"), ("shell", '{"command": 1}', "shell needs 'command'"),
     ("shell", '{"command": "ls", "comand": "x"}', "did you mean 'command'"), ("shell", "[" * 9999, "no JSON object")],
)  # fmt: skip
def test_a_wrong_call_is_answered_with_the_reason(name, arguments, word):
    reply = command_as_call(Command(name, {}), 0)
    reply["tool_calls"][0]["function"]["arguments"] = arguments
    with OneTask(style="short") as env:
        turn = play_replies(env, [reply])[0]
    assert obs_text(turn).startswith("error: ") and word in obs_text(turn) and not turn[4]["valid"]


@pytest.mark.parametrize("level", range(4))
def test_every_family_of_a_level_occurs_and_is_solved_by_the_oracle(level):
    with Shell(style="short", level=level) as env:
        families, indices = len(LEVELS[level]), range(0, 200, 5)
        first = {" ".join(env.load("test")[index].metadata["goal"].split()[:2]) for index in indices}
        assert len(first) >= families
        assert all(is_won(play_oracle(env, index)) for index in indices) and env.turns < env.max_turns
        assert sum(len(message["content"]) for message in env.dialogue) < 200


@pytest.mark.parametrize("family", [family for level in LEVELS for family in level], ids=lambda one: one.__name__)
def test_a_goal_is_not_reached_at_the_start_and_does_not_contain_its_command(family):
    for seed in range(20):
        builder = TreeBuilder(np.random.default_rng(seed))
        goal = family(builder)
        assert goal.target != builder.tree and not any(command in goal.text for command in goal.commands)


def test_the_oracle_corrects_other_changes_too():
    damage = "rm -rf a.txt b; mkdir e.txt; echo x > e.txt/x; chmod 777 d.sh; touch \"$(printf 'n\\n')\" -- -x"
    with OneTask(style="short", spare=3) as env:
        play_replies(env, [damage])
        assert env._wrong_paths() and is_won(step_replies(env, env.oracle()))


def test_a_level_0_episode_is_short_in_bytes():
    with Shell(style="short") as env:
        for index in range(20):
            play_oracle(env, index)
            assert sum(len(message["content"]) for message in env.dialogue) <= 40


def test_random_replies_hardly_ever_win():
    with Shell(style="short") as env:
        assert random_win_rate(env, 60) < 0.15


def test_a_copy_between_two_turns_goes_on_alike():
    with OneTask(style="short") as env:
        env.reset(seed=0)
        env.step("echo fig > e.txt")
        with pickle.loads(pickle.dumps(env)) as twin, copy.deepcopy(env) as other:
            assert twin.step("done") == other.step("done") == env.step("done")


def test_a_sandbox_error_gives_no_verdict(monkeypatch):
    with OneTask(style="short") as env:
        env.reset(seed=0)
        monkeypatch.setattr(file_tree, "UNPREPARED", 1)
        monkeypatch.setattr(file_tree, "_runner_program", lambda: "raise MemoryError")
        with pytest.raises(sandboxes.SandboxError, match="a tree of 4 files could not be made"):
            env.step("ls")


def test_a_closed_environment_closes_its_sandbox():
    env = OneTask(style="short", sandbox="local:namespaces")
    play_replies(env, ["sleep 100 &", "done"])
    place = env._lease.sandbox
    env.close()
    with pytest.raises(sandboxes.SandboxClosed):
        place.run("1")


def test_prose_and_tools_keep_the_contract_too():
    arguments = {"style": "full", "level": 3}
    for check in (contract.splits, contract.info_keys, rewards.answer_leak):
        assert not list(check(EnvUnderTest("envs.code.shell:Shell", arguments)))


@pytest.mark.parametrize(
    "reply", ["Done.", "**done**", "`done`", "- done", "Action: done", "I have made it.\nDone!", '{"name": "done"}']
)
def test_done_is_read_as_models_write_it(reply: str) -> None:
    assert _parse_command(assistant(reply)) == "done"


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ('{"name": "shell", "arguments": {"command": "ls -l"}}', "ls -l"),
        ('```json\n{"name": "shell", "parameters": {"command": "ls -l"}}\n```', "ls -l"),
        ("Action: `ls -l`", "ls -l"),
        ('{ echo "name"; }', '{ echo "name"; }'),
        ('cat > a <<E\n{"name": "x"}\nE', 'cat > a <<E\n{"name": "x"}\nE'),
        ("> a", "> a"),
        ("echo done", "echo done"),
    ],
)
def test_a_call_in_json_is_told_from_a_command(reply: str, line: str) -> None:
    assert _parse_command(assistant(reply)) == line
