"""`tools/Plans-v0`: tools, plans as JSON and as code, feedback by stages, scores, tasks of a file."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from envs.checks import contract, isolation, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.tools.plans.plan import Reference, Step, execute, parse_code_plan, parse_json_plan, plan_steps, verify
from envs.tools.plans.plan_tools import PLAN_TOOLS
from envs.tools.plans.plan_values import ValueFault
from envs.tools.plans.plans import Plans
from envs.types import ToolError, assistant, text


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def begin(env: Plans, plan: list[dict[str, Any]], result: Any) -> None:
    """An episode of a task of its own."""
    env.reset(seed=0, options={"split": "test", "index": 0})
    env.task = type(env.task)("test/x", metadata={"request": "x", "plan": plan, "result": result})


@pytest.mark.parametrize(
    "name, arguments, result",
    [
        ("title_case", {"text": "a bc"}, "A Bc"),
        ("reverse_words", {"text": "a b c"}, "c b a"),
        ("remove_vowels", {"text": "Orange"}, "rng"),
        ("first_words", {"text": "a b c", "number": 2}, "a b"),
        ("replace_word", {"text": "a aa a", "old": "a", "new": "b"}, "b aa b"),
        ("count_letter", {"text": "Anna", "letter": "a"}, 2),
        ("remainder", {"first": 17, "second": 5}, 2),
        ("spell_digits", {"number": 204}, "two zero four"),
        ("unique_entries", {"list": ["b", "a", "b"]}, ["b", "a"]),
        ("take_entry", {"list": ["a", "b"], "number": 2}, "b"),
        ("longest_entry", {"list": ["aa", "b", "cc"]}, "aa"),
        ("join_entries", {"list": ["a", 1], "separator": "-"}, "a-1"),
    ],
)
def test_tools_do_what_they_say(name: str, arguments: dict[str, Any], result: Any) -> None:
    assert PLAN_TOOLS[name].run(arguments) == result


def test_tools_of_tables() -> None:
    steps = plan_steps(
        [
            {"name": "load_table", "args": {"name": "stock"}},
            {"name": "rows_above", "args": {"table": "<node-0>.table", "column": "pieces", "number": 6}},
            {"name": "sort_rows", "args": {"table": "<node-1>", "column": "pieces"}},
            {"name": "column_values", "args": {"table": "<node-2>.table", "column": "item"}},
        ]
    )
    verify(steps)
    assert execute(steps) == ["ladder", "lamp", "torch"]
    assert len(PLAN_TOOLS) == 34


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("remainder", {"first": 1, "second": 0}, "the divisor is 0"),
        ("take_entry", {"list": [], "number": 1}, "entry 1 of a list of 0"),
        ("take_entry", {"list": ["a"], "number": 0.5}, "no whole number"),
        ("spell_digits", {"number": -1}, "only 0 to 9999"),
        ("count_letter", {"text": "a", "letter": "ab"}, "is not one letter"),
        ("load_table", {"name": "users"}, "there is no table 'users'"),
        ("sum_column", {"table": [{"a": "x"}], "column": "a"}, "holds no numbers"),
        ("column_values", {"table": [{"a": "x"}], "column": "b"}, "has no column 'b'"),
        ("square", {"number": 10**9}, "too large"),
        ("join_texts", {"first": "a" * 5000, "second": "b"}, "too large"),
    ],
)
def test_tools_without_a_result_say_why(name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueFault, match=re.escape(words)):
        PLAN_TOOLS[name].run(arguments)


PLAN = [Step(0, "add", {"first": 2, "second": 3}), Step(1, "square", {"number": Reference(0)})]


@pytest.mark.parametrize(
    "code",
    [
        "a = add(first=2, second=3)\nb = square(number=a)",
        "square(number=add(first=2, second=3))",
        "def solve():\n    a = add(first=2, second=3)\n    b = square(number=a)\n    return b",
        "def solve():\n    a = add(first=2, second=3)\n    return square(number=a)",
    ],
)
def test_code_is_the_same_plan(code: str) -> None:
    assert parse_code_plan(f"I add first.\n{fenced(code)}") == PLAN


def test_a_name_can_be_assigned_again() -> None:
    steps = parse_code_plan(fenced("a = add(first=2, second=3)\na = square(number=a)\na = square(number=a)"))
    assert execute(steps) == 625


@pytest.mark.parametrize(
    "code, words",
    [
        ("a = 1 + 2", "line 1 is no call"),
        ("import os", "line 1 is no call"),
        ("a, b = add(first=1, second=2)", "line 1 is no call"),
        ("for i in range(9):\n    add(first=i, second=1)", "line 1 is no call"),
        ("a = add(1, 2)", "give the arguments by name"),
        ("a = add(**{'first': 1})", "give the arguments by name"),
        ("a = square(number=b)", "the name 'b' has no value"),
        ("a = square(number=().__class__)", "a name, a call or a literal"),
        ("a = square(number=9**9**9)", "a name, a call or a literal"),
        ("a = os.system(command='x')", "line 1 is no call"),
        ("a = add(first=1, second=2)\nb = square(number=a)\nreturn a", "return the result of the last call"),
        ("a = (", "is no Python"),
        ("", "has no call"),
        ("\n".join(["a = square(number=1)"] * 21), "at most 20 steps"),
        ("a = " + "f(x=" * 3000, "parsing: "),
    ],
)
def test_other_code_is_refused(code: str, words: str) -> None:
    with pytest.raises(ToolError, match=re.escape(words)):
        parse_code_plan(fenced(code))


@pytest.mark.parametrize(
    "reply",
    [
        '[{"id": 0, "name": "add", "args": {"first": 2, "second": 3}}]',
        'Add [first].\n[{"name": "add", "args": {"first": 2, "second": 3}}]',
        '```json\n[\n {"id": 0, "name": "add", "args": {"first": 2, "second": 3}}\n]\n```',
        '```\nnot this\n```\nbut\n```\n[{"name": "add", "args": {"first": 2, "second": 3}}]\n```',
    ],
)
def test_json_is_read_at_the_end_of_a_reply(reply: str) -> None:
    assert parse_json_plan(reply) == PLAN[:1]


@pytest.mark.parametrize(
    "reply, words",
    [
        ("add 2 and 3", "does not end with a JSON list"),
        ('[{"name": "add"}] is the plan', "is no JSON"),
        ("[]", "at least one step"),
        ("[3]", "step 0 needs the form"),
        ('[{"name": "add", "id": "x"}]', "id is a whole number"),
        ('[{"name": "add", "args": []}]', "args an object"),
        (json.dumps([{"name": "add"}] * 21), "at most 20 steps"),
        ("[" * 30_000, "parsing: "),
    ],
)
def test_what_is_no_plan_is_refused(reply: str, words: str) -> None:
    with pytest.raises(ToolError, match=re.escape(words)):
        parse_json_plan(reply)


@pytest.mark.parametrize(
    "step, words",
    [
        ({"name": "ad", "args": {}}, "unknown tool 'ad'; did you mean 'add'?"),
        ({"name": "square", "args": {}}, "needs the argument 'number'"),
        ({"name": "square", "args": {"number": 2, "power": 3}}, "unknown argument 'power'"),
        ({"name": "square", "args": {"number": "2"}}, "number must be of type number"),
        ({"name": "square", "args": {"number": True}}, "number must be of type number"),
        ({"name": "square", "args": {"number": float("nan")}}, "number must be of type number"),
        ({"name": "square", "args": {"number": "<node-5>.number"}}, "refers to step 5, which is not before it"),
        ({"name": "square", "args": {"number": "<node-1>.number"}}, "refers to step 1, which is not before it"),
        ({"name": "square", "args": {"number": "<node-0>.number"}}, "is a text: write <node-0>.text"),
        ({"name": "square", "args": {"number": "<node-0>"}}, "step 0 returns text"),
        ({"id": 0, "name": "square", "args": {"number": 2}}, "the id 0 occurs twice"),
    ],
)
def test_verification_names_what_to_mend(step: dict[str, Any], words: str) -> None:
    steps = plan_steps([{"name": "upper_case", "args": {"text": "a"}}, {"id": 1, **step}])
    with pytest.raises(ToolError, match=re.escape(words)):
        verify(steps)


def test_faults_are_answered_by_stage_until_the_attempts_are_over() -> None:
    env = Plans()
    env.reset(seed=0, options={"split": "test", "index": 0})
    for reply, stages, words in (
        ("hm", (0, 0, 0), "Error: parsing: "),
        ('[{"name": "squar", "args": {"number": 2}}]', (1, 0, 0), "Error: verification: unknown tool 'squar'"),
        ('[{"name": "spell_digits", "args": {"number": -2}}]', (1, 1, 0), "Error: execution: step 0, spell_digits"),
    ):
        messages, reward, terminated, truncated, info = env.step(reply)
        assert tuple(info["metrics"][stage] for stage in ("parsed", "verified", "executed")) == stages
        assert (reward, terminated, info["valid"]) == (0, False, False)
        assert text(messages[0]).startswith(words)
    assert truncated and not info["success"]
    env.reset(seed=0, options={"split": "test", "index": 0})
    env.step("hm")
    assert env.step(next(env.oracle()))[-1]["success"]


def test_scores_of_a_plan() -> None:
    env = Plans()
    right = [
        {"id": 0, "name": "add", "args": {"first": 2, "second": 3}},
        {"id": 1, "name": "square", "args": {"number": "<node-0>.number"}},
    ]
    for plan, scores in (
        (right, (1, 1, 1, 1)),
        ([{**right[0], "args": {"first": 3, "second": 3}}, right[1]], (0, 1, 1, 1)),
        ([{"name": "multiply", "args": {"first": 5, "second": 5}}], (0, 0, 0, 1)),
        (right[:1], (0, 2 / 3, 4 / 5, 1)),
        ([{"name": "square", "args": {"number": 5.0}}], (0, 2 / 3, 1 / 2, 1)),
    ):
        begin(env, right, 25)
        *_, reward, terminated, _, info = env.step(json.dumps(plan))
        assert tuple(info["rewards"].values()) == pytest.approx(scores)
        assert list(info["rewards"]) == ["output", "tool_f1", "argument_f1", "pass"]
        assert (reward, terminated, info["success"]) == (scores[0], True, bool(scores[0]))


def test_a_step_that_is_left_out_costs_the_reward_and_one_in_its_place_does_not() -> None:
    right = [
        {"id": 0, "name": "title_case", "args": {"text": "amber bridge"}},
        {"id": 1, "name": "count_words", "args": {"text": "<node-0>.text"}},
    ]
    count = {"name": "count_words", "args": {"text": "amber bridge"}}
    same = {"id": 0, "name": "first_words", "args": {"text": "amber bridge", "number": 2}}  # changes nothing
    split = {"id": 1, "name": "split_words", "args": {"text": "<node-0>.text"}}
    length = {"id": 2, "name": "count_entries", "args": {"list": "<node-1>.list"}}
    env = Plans()
    for plan, reward in (
        (right, 1.0),
        ([count], 0.0),
        ([right[0], {"id": 1, **count}], 0.0),  # called, and not used
        ([same, right[1]], 0.0),
        ([right[0], split, length], 1.0),
        ([right[1] | {"id": 0, "args": {"text": "Amber Bridge"}}], 0.0),
    ):
        begin(env, right, 2)
        assert env.step(json.dumps(plan))[1] == reward, plan


def test_no_task_pays_for_its_plan_without_a_step() -> None:
    env = Plans()
    for index in range(len(env.load("test"))):
        steps = plan_steps(env.load("test")[index].metadata["plan"])
        for place in range(1, len(steps)):
            link = next(value for value in steps[place].args.values() if isinstance(value, Reference))
            rest = [
                step._replace(
                    args={
                        name: link if isinstance(value, Reference) and value.id == place else value
                        for name, value in step.args.items()
                    }
                )
                for step in steps
                if step.id != place
            ]
            env.reset(seed=0, options={"split": "test", "index": index})
            assert env.step(env._written(rest))[1] == 0.0


@pytest.mark.parametrize("arguments", [{"form": "code"}, {"style": "short"}, {"attempts": 2, "longest": 2}])
def test_other_arguments_keep_the_contract(arguments: dict[str, Any]) -> None:
    subject = EnvUnderTest("tools/Plans-v0", arguments, tasks=20)
    for check in (
        contract.limits,
        contract.bad_input,
        isolation.determinism,
        rewards.oracle,
        rewards.thinking_aloud,
        rewards.noop_and_junk,
        rewards.attacks,
    ):
        assert not list(check(subject)), check


def test_tasks_use_every_tool_and_every_step_changes_the_value() -> None:
    tasks = Plans().load("test")
    assert len(tasks) == 200
    assert {step["name"] for task in tasks for step in task.metadata["plan"]} == PLAN_TOOLS.keys()
    lengths = Counter(len(task.metadata["plan"]) for task in tasks)
    assert set(lengths) == {1, 2, 3, 4} and min(lengths.values()) >= 25
    for task in tasks:
        steps = plan_steps(task.metadata["plan"])
        verify(steps)
        results = [execute(steps[: end + 1]) for end in range(len(steps))]
        assert results[-1] == task.metadata["result"]
        assert all(results.count(result) == 1 for result in results)


def test_tasks_of_a_file_have_the_fields_of_mms(tmp_path: Path) -> None:
    plan = [{"id": 0, "name": "square", "args": {"number": 7}}]
    rows = [
        {"id": 1, "user_request": "Square 7.", "plan": plan},
        {"id": 2, "user_request": "7 times 7?", "plan_str": json.dumps(plan), "split": "train"},
    ]
    path = tmp_path / "plans.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    env = Plans(tasks=str(path))
    for split in ("test", "train"):
        env.reset(seed=0, options={"split": split, "index": 0})
        assert env.task.answer == "49"
        assert env.step(next(env.oracle()))[-1]["success"]
    for line, words in (
        ("{", "plans.jsonl:1: "),
        ("{}", "it needs user_request"),
        ('{"user_request": "x"}', "a plan is a list"),
        ('{"user_request": "x", "plan": [{"name": "image classification"}]}', "unknown tool"),
        (json.dumps({**rows[0], "split": "dev"}), "split 'dev' is not one of"),
    ):
        path.write_text(line)
        with pytest.raises(ValueError, match=re.escape(words)):
            Plans(tasks=str(path))


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"form": "yaml"}, "form 'yaml' is not one of json, code"),
        ({"attempts": 0}, "attempts 0 is outside 1..20"),
        ({"longest": 5}, "longest 5 is outside 1..4"),
        ({"shortest": 3, "longest": 2}, "shortest 3 is outside 1..2"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Plans(**arguments)


def test_the_vote_of_a_plan_is_its_result() -> None:
    env = Plans()
    env.reset(seed=0, options={"split": "test", "index": 0})
    votes = [
        env.vote(assistant(json.dumps([{"name": name, "args": args}])))
        for name, args in (
            ("square", {"number": 4}),
            ("multiply", {"first": 2, "second": 8}),
            ("square", {"number": 5}),
            ("square", {}),
        )
    ]
    assert votes[0] == votes[1] != votes[2]
    assert votes[3] is None


@pytest.mark.parametrize(
    ("reply", "form", "words"),
    [
        ('[{"id": 0, "name": "square", "arguments": {"number": 2}}]', "json", 'needs the form {"id": 0'),
        ('{"id": 0, "name": "square", "args": {"number": 2}}', "json", "which stands in [ and ] even with one step"),
        ('[{"name": "square", "args": {"number": "15"}}]', "json", 'must be of type number, not "15"'),
        (
            '[{"name": "load_table", "args": {"name": "stock"}}, {"id": 1, "name": "column_values", '
            '"args": {"table": "<node-0>.table", "column": "Pieces"}}]',
            "json",
            "no column 'Pieces'; it has item, shelf, pieces",
        ),
        ("```python\nprint(square(number=57))\n```", "code", "'print'"),
    ],
)
def test_an_error_says_how_to_mend_the_plan(reply: str, form: str, words: str) -> None:
    env = Plans(form=form)
    env.reset(seed=0)
    messages, _, terminated, _, info = env.step(reply)
    assert words in text(messages[-1]) and not terminated and not info["valid"]
