"""Python: an interpreter that lasts for an episode, answers graded outside it, and nothing in it that pays."""

import os
import pickle
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from envs.checks import contract, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.data import MissingData
from envs.math import python_attacks
from envs.math.arithmetic import Arithmetic
from envs.math.python import Python
from envs.shared_sandbox import Lease
from envs.tools.python_tool import TOOLS, code_as_call
from envs.types import assistant
from sandboxes import SandboxDied
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies
from tests.support.sandbox_hosts import processes, why_not

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(autouse=True)
def possible():
    if reason := why_not("local"):
        pytest.skip(reason)


@pytest.fixture
def make():
    environments = []

    def make(**arguments):
        environments.append(Python(**{"style": "short", **arguments}))
        return environments[-1]

    yield make
    for env in environments:
        env.close()


def started():
    """The sandbox processes that this process has started; other tests may run theirs."""
    pids = set()
    for pid in processes():
        with suppress(OSError):  # it has just ended
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            pids |= {pid} if int(parent) == os.getpid() else set()
    return pids


def told(env, *replies, index=0):
    """What came back for each reply to a test task."""
    return [obs_text(turn) for turn in play_replies(env, replies, split="test", index=index)]


def test_a_problem_is_copied_run_and_answered(make):
    env = make()
    (opening,), info = env.reset(options={"split": "test", "index": 0})
    assert opening["content"] == "177+170*2=?" and info["answer"] == "517" and info["tools"] == []
    first, last = step_replies(env, [">177+170*2", "517"])
    assert obs_text(first) == "517" and first[4]["metrics"] == {"calls": 1, "failed": 0} and is_won([first, last])


def test_problems_splits_and_verdicts_are_those_of_the_other_environment(make):
    ours, theirs = make(level=2), Arithmetic(level=2)
    for split in ("train", "val", "test"):
        assert [task.answer for task in ours.load(split)[:30]] == [task.answer for task in theirs.load(split)[:30]]
    for answer in ("{}", "#### {}", "I ran 1+1 and the answer is {}.", "<think>12 or 13?</think>{}"):
        assert is_won(play_replies(ours, [answer.format(ours.load("train")[5].answer)], index=5))
    for answer in ("{0} or 1{0}", "{}.0", "not a number"):
        assert not play_replies(ours, [answer.format(ours.load("train")[5].answer)], index=5)[-1][1]


def test_names_last_for_the_episode_and_no_longer(make):
    env = make(max_calls=4)
    assert told(env, ">x = 6", ">def f(y):\n>    return x * y", ">f(7)") == ["no output", "no output", "42"]
    assert told(env, ">x") == ["NameError: name 'x' is not defined (line 1)"]


@pytest.mark.parametrize(
    "code, observed",
    [
        ("1/0", "ZeroDivisionError: division by zero (line 1)"),
        ("print('a')\n\nint('b')", "a\nValueError: invalid literal for int() with base 10: 'b' (line 3)"),
        ("x =", "SyntaxError: invalid syntax (line 1)"),
        ("def f():\n    return y\n\nf()", "NameError: name 'y' is not defined (line 2)"),
        ("raise SystemExit", "SystemExit (line 1)"),
        ("raise KeyError('a\\n\\ud800')", "KeyError: 'a\\n\\ud800' (line 1)"),
        ("raise ValueError('a\\n\\ud800')", "ValueError: a \\ud800 (line 1)"),
        ("input()", "EOFError: EOF when reading a line (line 1)"),
        ("print('1' * 40)", "1" * 30 + " [cut]"),
        ("object()", "<object object at 0x0>"),
        ("None", "no output"),
        ("import os; os._exit(0)", "stopped (exit), restarted"),
        ("print('x' * 10**7)", "stopped (output), restarted"),
        ("print(1)\nwhile True: pass", "stopped (time), restarted"),
    ],
)
def test_what_comes_back_is_short_and_names_the_line(make, code, observed):
    env = make(output_chars=30, timeout_s=1.0)
    turn = play_replies(env, [f"```python\n{code}\n```"])[0]
    assert obs_text(turn) == observed
    is_fault = "line" in observed or "stopped" in observed
    assert turn[4]["valid"] != is_fault and turn[4]["metrics"] == {"calls": 1, "failed": is_fault}
    assert not (turn[2] or turn[3])


def test_the_line_is_one_of_the_code_that_was_just_run(make):
    env = make(max_calls=3)
    assert told(env, ">def f():\n>    return y", ">1\n>2\n>f()")[1] == "NameError: name 'y' is not defined (line 3)"


def test_waiting_is_bounded_too_and_takes_the_names_with_it(make):
    env = make(timeout_s=1.0, max_calls=4)
    replies = [">x = 1", ">print(x)\n>import time; time.sleep(60)", ">x"]
    assert told(env, *replies)[1:] == ["stopped (time), restarted", "NameError: name 'x' is not defined (line 1)"]


def test_full_style_accepts_text_too_and_says_when_calls_have_run_out(make):
    env = make(style="full", max_calls=1)
    turns = play_replies(env, ["```python\n1 + 1\n```", ">2", "I add.\n517"], split="test", index=0)
    assert obs_text(turns[0]) == "2" and "there are no more" in obs_text(turns[1])


def test_calls_run_out_and_the_last_reply_may_still_answer(make):
    turns = play_replies(make(max_calls=1, max_turns=5), [">1", ">2", "517"], split="test", index=0)
    assert (
        [obs_text(turn) for turn in turns[:2]] == ["1", "no calls left"] and not turns[1][4]["valid"] and is_won(turns)
    )
    turns = play_replies(make(max_calls=1), [">1", ">2"])
    assert turns[-1][3] and turns[-1][4]["stop"] == "turn_limit" and not turns[-1][4]["success"]


def test_code_that_is_not_there_is_told(make):
    turn = play_replies(make(), [">"])[0]
    assert obs_text(turn) == "error: there is no code" and turn[4]["metrics"] == {"calls": 0, "failed": 1}


def test_the_tool_can_be_called(make):
    env = make(style="full")
    assert env.reset()[1]["tools"] == list(TOOLS)
    turns = play_oracle(env, 0)
    assert turns[0][0] == ({"role": "tool", "tool_call_id": "call00000", "content": "517"},) and is_won(turns)
    twice = code_as_call("1", 0)
    twice["tool_calls"] += code_as_call("2", 1)["tool_calls"]
    assert [message["content"] for message in play_replies(env, [twice])[0][0]] == ["1", "error: one call a turn"]
    wrong = code_as_call("1", 0)
    wrong["tool_calls"][0]["function"]["name"] = "pyton"
    turn = play_replies(env, [wrong])[0]
    assert obs_text(turn).startswith("error: unknown tool 'pyton'; did you mean 'python'? For the final answer: ")
    assert not turn[4]["valid"]


def test_the_oracle_answers_what_it_had_computed(make):
    env = make()
    for index in range(0, 500, 50):
        turns = play_oracle(env, index)
        assert obs_text(turns[0]) == env.task.answer == env.dialogue[-1]["content"] and is_won(turns)


@pytest.mark.parametrize("arguments", [{"task": "countdown", "size": 4}, {"task": "gsm8k"}])
def test_the_oracle_wins_the_other_tasks_too(make, arguments):
    try:
        env = make(**arguments)
        env.load("test")
    except MissingData as missing:
        pytest.skip(str(missing))
    for index in range(0, len(env.load("test")), 40):
        turns = play_oracle(env, index)
        assert is_won(turns) and turns[0][4]["valid"] and len(turns[1][4]["metrics"]) > 2


def test_no_fraud_is_paid_whatever_it_answers_next(make):
    env = make(timeout_s=0.2)
    env.reset(options={"split": "test", "index": 0})
    frauds = python_attacks.attack_replies(env.task.answer)
    assert len(frauds) >= 20
    for fraud in frauds:
        turns = play_replies(env, [fraud], split="test", index=0)
        assert turns[0][1] == 0 and not (turns[0][2] or turns[0][3])
        if env.task.answer not in fraud:  # who names the answer knew it
            assert env.task.answer not in obs_text(turns[0])
            assert not step_replies(env, [obs_text(turns[0])])[-1][4]["success"]


def test_chance_does_not_solve_it(make):
    assert random_win_rate(make(), 30) == 0.0


def test_an_episode_without_code_opens_no_process_and_one_with_code_leaves_none(make):
    env, before = make(), started()
    play_replies(env, ["517"])
    assert started() <= before
    for replies in ([">import os", "517"], [">import os", ">2", ">3"]):
        play_replies(env, replies[:1])
        assert env._interpreter.is_open
        step_replies(env, replies[1:])
        assert not env._interpreter.is_open and started()
    play_replies(env, [">import os"])
    env.close()
    assert started() <= before


def test_a_fault_of_the_sandbox_is_raised_and_the_next_episode_is_sound(make, monkeypatch):
    env = make()
    play_replies(env, [">import os"])

    def fail(*_, **__):
        raise SandboxDied("gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(env._interpreter._session), "cell", fail)
        with pytest.raises(SandboxDied):
            env.step(">2")
    assert told(env, ">3") == ["3"]


def test_equal_code_prints_the_same_in_every_sandbox(make):
    code = ">import random\n>print(random.random(), hash('a'), {str(n) for n in range(9)}, object(), open)"
    one, other = make(sandbox="local"), make(sandbox="local:namespaces")
    assert told(one, code) == told(one, code) == told(other, code)


def test_packages_are_there_if_asked_for(make):
    assert told(make(), ">import numpy")[0].startswith("ModuleNotFoundError")
    assert told(make(packages="numpy"), ">import numpy; int(numpy.arange(4).sum())") == ["6"]


def test_states_are_equal_exactly_if_the_same_was_run_and_told(make):
    env = make(max_calls=3)

    def state(*replies):
        return [env.reset(options={"split": "test", "index": 1})[1]["state"],
                *[turn[4]["state"] for turn in step_replies(env, replies)]][-1]  # fmt: skip

    assert state(">a = 1\n>a") == state("so\n> a = 1  \n> \n> a") == state(code_as_call("a = 1\na", 0))
    assert len({state(), state(">a = 1"), state(">a = 2"), state(">a = 1", ">"), state(">a = 1", ">a")}) == 5


def test_a_copy_goes_on_with_the_names_it_had(make):
    env = make(max_calls=3)
    play_replies(env, [">x = [1]", ">import os\n>x.append(2)"])
    with pickle.loads(pickle.dumps(env)) as copy:
        assert [obs_text(one.step(">x")) for one in (env, copy)] == ["[1, 2]"] * 2


def test_votes_are_counted_for_answers_only(make):
    env = make()
    assert env.vote(assistant("the answer is 5")) == env.vote(assistant("<think>6</think>5")) == 5
    assert env.vote(assistant(">5")) is None and env.vote(assistant(">")) is None
    assert make(task="countdown").vote(assistant("1+2")) == "1+2"


def test_random_replies_depend_on_their_generator(make):
    env = make()
    env.reset(seed=0)
    replies = [[env.random(np.random.default_rng(seed)) for _ in range(2)] for seed in (1, 1, 2)]
    assert replies[0] == replies[1] != replies[2]


@pytest.mark.parametrize(
    "wrong, word",
    [
        ({"task": "algebra"}, "task 'algebra' is not one of arithmetic, countdown, gsm8k"),
        ({"max_calls": 0}, "max_calls 0"),
        ({"timeout_s": 0}, "not 0"),
        ({"timeout_s": float("inf")}, "not inf"),
        ({"output_chars": 1}, "output_chars 1"),
        ({"max_calls": 2.5}, "max_calls 2.5 is no whole number from 1"),
        ({"level": 9}, "level 9"),
        ({"size": 4}, "unknown argument 'size' in math/Arithmetic-v0"),
        ({"task": "gsm8k", "level": 1}, "unknown argument 'level' in math/GSM8K-v0"),
        ({"sandbox": "locl"}, "did you mean 'local'"),
        ({"sandbox": "remote", "packages": "numpy"}, "packages 'numpy': the sandbox 'remote' has"),
    ],
)
def test_a_wrong_argument_is_named(wrong, word):
    with pytest.raises(ValueError, match=word):
        Python(**wrong)


def test_rules_in_words_and_the_other_forms_keep_the_contract(make):
    opening, _ = make(style="v1", max_calls=7).reset()
    assert [one["role"] for one in opening] == ["system", "user"] and "Calls allowed: 7" in opening[0]["content"]
    (_, problem), _ = make(style="v1", task="countdown").reset()
    assert problem["content"].startswith("Use each of ")
    (opening,), _ = make(style="full", max_calls=7).reset()
    assert "at most 7 times" in opening["content"] and "at most 8 replies" in opening["content"]
    for arguments in ({"level": 1}, {"task": "countdown"}, {"task": "countdown", "style": "short"}):
        subject = EnvUnderTest("envs.math.python:Python", arguments, tasks=4)
        for check in (contract.info_keys, rewards.oracle, rewards.noop_and_junk, rewards.answer_leak):
            assert not list(check(subject))


def test_environments_of_one_kind_share_a_sandbox_without_packages(make):
    lease = Lease("local", {"packages": ()})
    assert make()._lease.sandbox is make()._lease.sandbox is lease.sandbox
    lease.close()
