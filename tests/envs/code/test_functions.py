"""Functions to write: the bank is sound, its inputs tell functions apart, and only right programs are rewarded."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from envs.checks import rewards
from envs.checks.env_under_test import EnvUnderTest, play
from envs.code.functions import CASES, Functions
from envs.code.grading.attacks import attacks
from envs.code.grading.split_grading import is_equal, literal
from envs.code.synthesis import bank
from sandboxes import SandboxDied
from tests.support.sandbox_hosts import why_not

TEMPLATES = [template for level in bank.LEVELS for template in level]


@pytest.fixture(scope="module")
def env() -> Iterator[Functions]:
    if reason := why_not("local"):
        pytest.skip(reason)
    variant = Functions()
    assert variant.lease.sandbox  # from now on shared with all others
    yield variant
    variant.close()


def grade_reply(env: Functions, reply: str, *, index: int = 0, seed: int = 0) -> tuple[float, dict, str]:
    """The reward of a reply, its info, and the observation."""
    episode = play(env, lambda _: [reply], index=index, seed=seed)
    messages, reward, terminated, _, info = episode.turns[0]
    assert terminated and info["success"] is (reward == 1.0)
    return reward, info, messages[0]["content"]


def test_there_are_sixty_families_with_unique_names() -> None:
    assert len(TEMPLATES) >= 60 and len({template.name for template in TEMPLATES}) == len(TEMPLATES)
    assert all(bank.find_template(template.name) is template for template in TEMPLATES)
    assert [bank.level_templates(level) for level in range(5)] == list(bank.LEVELS)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_family_is_sound(template: bank.Template) -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        problem = template.draw(rng)
        cases = problem.cases(rng)
        assert len({literal(case.expected) for case in cases}) > 1  # so no constant is right
        for place in range(len(problem.kinds)):  # nor is an argument as it is
            assert not all(is_equal(case.expected, case.args[place]) for case in cases)
        assert "$" not in problem.description + problem.source and len(problem.description) < 250
        names = {node.id for node in ast.walk(ast.parse(problem.source)) if isinstance(node, ast.Name)}
        assert set(problem.kinds) <= names
        assert all(literal(case) for case in cases)  # plain data, all the way down


def test_inputs_tell_every_function_from_simpler_ones() -> None:
    for template in TEMPLATES:
        least = {name: values[0] for name, values in template.ranges.items()}
        for name, values in template.ranges.items():
            for value in values:
                assert template.member({**least, name: value}).cases(np.random.default_rng(0))


def test_the_texts_of_the_first_level_are_short() -> None:
    rng = np.random.default_rng(0)
    for template in bank.level_templates(0):
        problem = template.draw(rng)
        assert len(problem.description) <= 20 and len(problem.shortest) <= 10 and problem.is_expression


def test_inputs_can_be_scaled_for_measurements() -> None:
    problem = bank.find_template("sum_plus").member({"k": 7})
    short, long = (problem.cases(np.random.default_rng(0), scale=scale) for scale in (1, 20))
    assert max(len(case.args[0]) for case in short) < 10 < 60 < max(len(case.args[0]) for case in long)


@pytest.mark.parametrize("level", range(5))
def test_splits_share_no_function_and_hold_many_families(level: int) -> None:
    variant = Functions(level=level)
    tasks_of = {split: variant.load(split) for split in ("val", "test")}
    train = [variant.load("train")[i] for i in range(0, 20_000, 40)]
    functions = {
        split: {repr(task.metadata) for task in tasks} for split, tasks in [*tasks_of.items(), ("train", train)]
    }
    assert len(functions["test"]) == 100 and len(functions["val"]) == 50
    assert (
        not functions["test"] & functions["val"]
        and not functions["test"] & functions["train"]
        and not functions["val"] & functions["train"]
    )
    families = Counter(task.metadata["template"] for task in tasks_of["test"])
    assert len(families) >= len(bank.level_templates(level)) - 3 and families.most_common(1)[0][1] <= 30
    assert [t.metadata for t in Functions(level=level, style="v1").load("test")] == [
        t.metadata for t in tasks_of["test"]
    ]


@pytest.mark.parametrize("level", range(5))
def test_the_reference_earns_the_maximum_at_every_level(level: int, env: Functions) -> None:
    subject = EnvUnderTest("code/Functions-v0", {"level": level, "style": "full" if level % 2 else "short"}, tasks=12)
    for check in (rewards.oracle, rewards.answer_leak):
        assert not list(check(subject))


@pytest.mark.parametrize("form", ["{short}", "```python\n{source}```", "Here:\n```python\n{source}```", "{source}"])
def test_expressions_and_whole_functions_are_accepted(env: Functions, form: str) -> None:
    for index in range(0, 100, 25):
        env.reset(seed=0, options={"split": "test", "index": index})
        reply = form.format(short=env.problem.shortest, source=env.problem.source)
        assert grade_reply(env, reply, index=index)[0] == 1.0


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("what", [what for what in attacks("f") if what not in attacks("f", slow=False)])
def test_attacks_that_use_up_their_cpu_time_earn_nothing(level: int, what: str) -> None:
    variant = Functions(level=level, timeout=0.2)
    try:
        reward, info, _ = grade_reply(variant, attacks("f")[what])
    finally:
        variant.close()
    assert reward == 0.0 and info["metrics"]["passed"] < 1.0


def test_inputs_depend_on_the_seed_alone(env: Functions) -> None:
    def cases_text(seed: int) -> str:
        env.reset(seed=seed, options={"split": "test", "index": 3})
        return literal(env.cases())

    assert cases_text(1) == cases_text(1) != cases_text(2)


def test_the_share_is_a_metric_and_with_partial_the_reward() -> None:
    unpaid = Functions(level=0)
    paying = Functions(level=0, partial=True)
    try:
        index = next(i for i, task in enumerate(unpaid.load("test")) if task.metadata["template"] == "larger")
        for variant, expected in ((unpaid, 0.0), (paying, None)):
            variant.reset(options={"split": "test", "index": index})
            reward, info, word = grade_reply(
                variant, variant.problem.params, index=index
            )  # as it is, and not the larger one
            share = info["metrics"]["passed"]
            assert 0 < share < 1 and reward == (share if expected is None else expected)
            assert info["rewards"] == {"right": reward} and word.startswith(f"{round(CASES * share)}/{CASES} right\n")
    finally:
        unpaid.close()
        paying.close()


def test_a_reply_that_does_not_compile_is_invalid_and_one_that_fails_is_not(env: Functions) -> None:
    assert grade_reply(env, "a plus seven")[1]["valid"] is False
    assert grade_reply(env, "")[1]["valid"] is False
    assert grade_reply(env, "nothing_of_this_name")[1]["valid"] is True


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("def f(*given): raise ValueError(given)", "ValueError"),
        ("def f(*given): return {}[given]", "KeyError"),
        ("def f(*given): raise type(f'E{given}', (Exception,), {})", "an exception"),
        ("def f(*given): return object()", "TypeError"),
        ("def f(*given): raise SystemExit", "SystemExit"),
        ("import nosuch\ndef f(*given): pass", "ModuleNotFoundError"),
        ("def f(*given):\n  while True: pass", "timeout"),
    ],
)
def test_the_line_on_what_went_wrong_shows_no_input(env: Functions, program: str, error: str) -> None:
    assert grade_reply(env, program)[2].split("\n")[0] == f"0/{CASES} right; {error}"


def test_an_audit_reports_and_may_refuse() -> None:
    reply = "import os\n{source}if not f: os._exit(1)\n"
    for audit, expected in (("report", 1.0), ("refuse", 0.0)):
        variant = Functions(audit=audit)
        try:
            variant.reset(seed=0, options={"split": "test", "index": 0})
            source = variant.problem.source
            reward, info, word = grade_reply(variant, reply.format(source=source))
            assert reward == expected and info["metrics"]["suspect"] == 1.0 == info["metrics"]["suspect/exits"]
            assert ("refused: exits" in word) is (audit == "refuse")
            assert grade_reply(variant, source)[1]["metrics"]["suspect"] == 0.0
        finally:
            variant.close()


def test_work_is_a_second_reward_of_right_programs_only() -> None:
    variant = Functions(level=1, work=True)
    try:
        variant.reset(seed=0, options={"split": "test", "index": 0})
        right = grade_reply(variant, variant.problem.source)
        assert right[0] == 1.0 and 0 < right[1]["rewards"]["work"] <= 1.0
        assert grade_reply(variant, "0")[1]["rewards"] == {"right": 0.0, "work": 0.0}
    finally:
        variant.close()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"level": 5}, "level 5 is not one of 0 to 4"),
        ({"timeout": 0}, "timeout must be above 0 and at most 3600 seconds, not 0"),
        ({"timeout": float("inf")}, "not inf"),
        ({"sandbox_options": {"foo": 1}}, "unknown option 'foo' in sandbox_options"),
        ({"audit": "on"}, "audit 'on' is not one of off, report, refuse"),
        ({"sandbox": "locl"}, "no sandbox 'locl'; did you mean 'local'?"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(wrong: dict, word: str) -> None:
    with pytest.raises(ValueError, match=word.replace("?", r"\?")):
        Functions(**wrong)


def test_a_sandbox_error_gives_no_score(env: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def run(self, program: object, **options: object) -> object:
            raise SandboxDied("gone")

    monkeypatch.setattr(type(env.lease), "sandbox", Broken())
    env.reset(seed=0)
    with pytest.raises(SandboxDied):
        env.step("a")


def test_attacks_earn_nothing_at_other_levels() -> None:
    for level in (1, 4):
        assert not list(rewards.attacks(EnvUnderTest("code/Functions-v0", {"level": level}, tasks=1)))
