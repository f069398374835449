"""Repairing a function: the feedback of a turn, which programs are right, and the cost of more turns."""

from __future__ import annotations

import copy
import pickle
import re
import sys

import numpy as np
import pytest

from envs.checks import contract
from envs.checks.env_under_test import EnvUnderTest
from envs.code.grading.feedback import describe_failure
from envs.code.grading.split_grading import Case
from envs.code.repair import Repair
from envs.code.synthesis import bank
from envs.code.synthesis.bugs import FAMILIES, MISSING, find_bugs
from envs.code.synthesis.mutants import sample_mutant
from envs.types import Task
from sandboxes import SandboxError
from tests.support.games import is_won, obs_text, play_replies, random_win_rate, step_replies
from tests.support.sandbox_hosts import why_not

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
WRONG = {"template": "add", "constants": {"v": "x", "k": 7}, "program": "x-7", "wrong": "f(0) is -7, not 7"}


@pytest.fixture(autouse=True)
def possible() -> None:
    if reason := why_not("local"):
        pytest.skip(reason)


class PlusSeven(Repair):
    """The program subtracts."""

    def tasks(self, split):
        return [Task(f"{split}/0", answer="x+7", metadata=WRONG)]


def feedback(*replies, **arguments):
    """The observation after each of these replies."""
    with PlusSeven(style="short", **{"max_turns": 50, "remind": False} | arguments) as env:
        return [obs_text(turn) for turn in play_replies(env, replies)]


def test_a_wrong_program_is_repaired_in_some_turns():
    with PlusSeven(style="short") as env:
        opening, info = env.reset(seed=0)
        assert opening[0]["content"] == "x plus 7\nx-7\nf(0) is -7, not 7\n3 left" and info["answer"] == "x+7"
        turns = step_replies(env, ["x+6", "y", "x+7"])
    assert [obs_text(turn) for turn in turns] == [
        "f(0) is 6, not 7\n2 left", "f(0) fails, NameError: name 'y' is not defined; should be 7\n1 left", "",
    ] and is_won(turns)  # fmt: skip
    assert turns[0][4]["rewards"] == {"right": 0.0, "turns": 0.0} and turns[0][4]["metrics"]["visible"] == 0.0
    metrics = turns[2][4]["metrics"]
    assert (metrics["visible"], metrics["hidden"], metrics["extended"]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    "reply, answer",
    [("x+8 if x else 7", "f(1) is 9, not 8"), ("'7'", "f(0) is '7', not 7"), ("float(x+7)", "f(0) is 7.0, not 7"),
     ("while True: pass", "f(0) fails, timeout; should be 7"), ("1/x", "f(0) fails, ZeroDivisionError: division by zero; "
     "should be 7"), ("[x]*10**4", "f(0) is [" + "0, " * 33 + "..., not 7"), ("x +", "SyntaxError: invalid syntax"),
     ("def g(x): return x + 7", "the program defines no function `f`, but `g`"), ("raise SystemExit", "f(0) fails, SystemExit; should be 7"), ("", "?")],
)  # fmt: skip
def test_the_feedback_is_the_first_visible_input_that_is_wrong(reply, answer):
    assert feedback(reply)[0].startswith(answer)


def test_a_program_is_accepted_in_several_forms():
    for reply in ("return x + 7", "def f(x):\n    return 7 + x", "I add.\n```python\ndef f(x):\n    return x + 7\n```",
                  "<think>x-7?</think>\nx + 7", "lambda x: x + 7"):  # fmt: skip
        assert feedback(reply) == [""]


def test_hidden_inputs_decide_and_differ_from_the_visible_ones():
    with PlusSeven(style="short") as env:
        env.reset(seed=0)
        visible_inputs, hidden_inputs = (
            {repr(case.args) for case in cases} for cases in (env._visible_cases, env._hidden_cases)
        )
        assert len(visible_inputs) >= 10 and len(hidden_inputs) >= 4 and not visible_inputs & hidden_inputs
        table = {case.args[0]: case.expected for case in env._visible_cases}
        messages, reward, terminated, _, info = env.step(f"def f(x): return {table}.get(x, 0)")
    assert (messages, reward, terminated, info["success"]) == ((), 0.0, True, False)
    assert info["metrics"]["visible"] == 1.0 and info["metrics"]["hidden"] == 0.0


def test_turns_left_are_shown_with_remind_only():
    assert feedback("x", "x", remind=True, max_turns=2) == ["f(0) is 0, not 7\n1 left", "f(0) is 0, not 7\n0 left"]
    assert feedback("x") == ["f(0) is 0, not 7"]


def test_without_a_description_only_the_program_and_an_input_are_shown():
    with PlusSeven(style="short", describe=False, remind=False) as env:
        assert env.reset(seed=0)[0][0]["content"] == "x-7\nf(0) is -7, not 7"


def test_more_turns_are_granted_once_for_their_cost():
    with PlusSeven(style="short", extend=2, cost=0.2, max_turns=2) as env:
        turns = play_replies(env, ["x", "`more`", "more", "x+7"])
        assert [obs_text(turn).splitlines()[-1:] for turn in turns] == [["1 left"], ["3 left"], ["2 left"], []]
        assert [turn[1] for turn in turns] == [0.0, -0.2, 0.0, 1.0] and turns[-1][4]["success"]
        assert turns[1][4]["rewards"] == {"right": 0.0, "turns": -0.2} and turns[1][4]["metrics"]["extended"] == 1
        assert obs_text(turns[2]).startswith("no more") and not turns[2][4]["valid"]
        assert play_replies(env, ["x", "x"])[-1][4]["stop"] == "turn_limit"  # the next episode has its own turns
        assert play_replies(env, ["more", "x", "x", "x", "x"])[-1][4]["stop"] == "turn_limit" and env.turns == 5
        assert env.reset(seed=0)[0][0]["content"].endswith("2 left")


def test_without_extend_more_is_a_program_like_any_other():
    assert feedback("more") == ["f(0) fails, NameError: name 'more' is not defined; should be 7"]


def test_the_state_is_the_feedback_and_the_turns_left():
    with PlusSeven(style="short", max_turns=9, extend=1) as env:
        ways = [["x", "y"], ["y", "x"], ["x", "x"], ["x", "0+x"], ["x", "more"]]
        states = [play_replies(env, way)[-1][4]["state"] for way in ways]
    assert states[0] == states[1] and states[2] == states[3] and len(set(states)) == 3
    assert states[4].endswith("extended 1 left 9") and states[0].endswith("extended 0 left 7")


@pytest.mark.parametrize("level", range(5))
def test_the_first_program_is_wrong_as_stated_and_the_reference_is_right(level):
    with Repair(style="short", level=level, remind=False) as env:
        tasks = env.load("train")
        for index in range(0, 60, 15):
            opening, _ = env.reset(seed=0, options={"split": "train", "index": index})
            metadata = tasks[index].metadata
            assert opening[0]["content"].endswith(metadata["wrong"])
            assert obs_text(env.step(metadata["program"])) == metadata["wrong"]
            assert is_won(play_replies(env, env.oracle(), index=index, split="train"))


def test_all_families_of_bugs_occur():
    rng, families = np.random.default_rng(0), set()
    for template in (one for level in bank.LEVELS for one in level):
        source = template.draw(rng).source
        for family in FAMILIES:
            for bug in find_bugs(source, family):
                assert bug.apply(source) != source and (family != "missing" or MISSING in bug.apply(source))
                compile(bug.apply(source), "wrong", "exec")
                families.add(family)
    assert families >= {"operator", "comparison", "off_by_one", "constant", "variable", "index", "inverted", "update"}
    assert len(families) >= 11


def test_a_bug_changes_one_place_and_brackets_stay():
    source = 'def f(a, b):\n    """Twice."""\n    return (a + b) * (a - f"{a+b}")\n'
    sources = {bug.apply(source).splitlines()[-1].strip() for bug in find_bugs(source, "operator")}
    assert sources == {"return (a - b) * (a - f\"{a+b}\")", "return (a + b) + (a - f\"{a+b}\")",
                    "return (a + b) * (a + f\"{a+b}\")"}  # fmt: skip


@pytest.mark.parametrize(
    "body, result, endless",
    [
        ("    while x != 3 - 2:\n        x = 1\n    return x", 1, "3 + 2"),
        ("    xs = [x]\n    for y in xs:\n        xs += [y] * (3 - 3)\n    return len(xs)", 1, "3 + 3"),
        ("    xs = [x]\n    return len([xs.append(y) for y in xs if 3 - 3])", 0, "3 + 3"),
    ],
    ids=["while", "for", "comprehension"],
)
def test_a_mutant_that_may_never_end_is_not_used(monkeypatch, body, result, endless):
    problem = bank.find_template("add").member({"v": "x", "k": 7})
    monkeypatch.setattr(type(problem), "source", property(lambda _: f"def f(x):\n{body}\n"))
    assert any(endless in bug.apply(problem.source) for bug in find_bugs(problem.source, "operator"))
    cases = [Case((0,), result)]
    for seed in range(20):
        mutant = sample_mutant(problem, np.random.default_rng(seed), cases, cases)
        assert mutant is None or endless not in mutant.program


def test_loops_are_counted_without_a_trace_function(monkeypatch):
    monkeypatch.setattr(sys, "settrace", lambda function: pytest.fail("a trace function is set"))
    problem = bank.find_template("add").member({"v": "x", "k": 7})
    cases = [Case((3,), 10)]
    assert any(sample_mutant(problem, np.random.default_rng(seed), cases, cases) for seed in range(20))


def test_values_are_written_alike_in_every_process():
    assert describe_failure("f", ({3, 1, 2},), {"b", "a"}, value=set()) == "f({1, 2, 3}) is set(), not {'a', 'b'}"


@pytest.mark.parametrize("value", ["10**5000", "[10**5000]", "{10**5000}"])
def test_a_number_too_long_to_write_is_described(value):
    env = Repair(style="short")
    env.reset(options={"split": "test", "index": 0})
    (message,), reward, *_ = env.step(f"def f(*a): return {value}")
    assert "is a value with a number too long to write, not" in message["content"] and reward == 0
    env.close()


def test_a_sandbox_error_gives_no_grade(monkeypatch):
    with PlusSeven(style="short") as env:
        env.reset(seed=0)

        def fail(*_, **__):
            raise SandboxError("down")

        monkeypatch.setattr("envs.code.repair.grade", fail)
        with pytest.raises(SandboxError, match="down"):
            env.step("x+7")


def test_a_level_0_episode_is_short_in_bytes():
    with Repair(style="short") as env:
        prompts = [
            env.reset(seed=0, options={"split": "test", "index": index})[0][0]["content"] for index in range(100)
        ]
    assert max(map(len, prompts)) <= 110 and np.mean([len(prompt) for prompt in prompts]) < 60


def test_chance_hardly_ever_wins():
    with Repair(style="short") as env:
        assert random_win_rate(env, 40) < 0.2


def test_a_copy_between_two_turns_goes_on_alike():
    with PlusSeven(style="short", extend=1) as env:
        env.reset(seed=0)
        env.step("more")
        with pickle.loads(pickle.dumps(env)) as twin, copy.deepcopy(env) as other:
            assert twin.step("x") == other.step("x") == env.step("x")


@pytest.mark.parametrize(
    "arguments, word",
    [({"level": 5}, "level 5 is outside 0..4"), ({"extend": -1}, "extend -1"), ({"cost": 1}, "cost 1 is outside 0..1"),
     ({"timeout": 0}, "timeout must be above"), ({"timeout": 1e10}, "not 1000"), ({"sandbox": "locl"}, "did you mean 'local'"), ({"extend": True}, "True")],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(arguments, word):
    with pytest.raises(ValueError, match=re.escape(word)):
        Repair(style="short", **arguments)


def test_a_harder_level_keeps_the_contract_too():
    assert not list(contract.info_keys(EnvUnderTest("envs.code.repair:Repair", {"level": 1, "extend": 2})))
