"""Functions to write: the bank is sound, its inputs tell functions apart, and only right programs are paid."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from envs.checks import rewards
from envs.checks.examined import Subject, play
from envs.code.functions import Functions
from envs.code.grading.attacks import attacks
from envs.code.grading.split_grading import literal, same
from envs.code.synthesis import bank
from sandboxes import SandboxDied
from tests.support.sandbox_hosts import why_not

TEMPLATES = [template for level in bank.LEVELS for template in level]


@pytest.fixture(scope="module")
def env() -> Iterator[Functions]:
    if reason := why_not("local"):
        pytest.skip(reason)
    made = Functions()
    assert made.lease.sandbox  # from now on shared with all others
    yield made
    made.close()


def paid(env: Functions, reply: str, *, index: int = 0, seed: int = 0) -> tuple[float, dict, str]:
    """The reward of a reply, its info, and the word on it."""
    episode = play(env, lambda _: [reply], index=index, seed=seed)
    messages, reward, terminated, _, info = episode.turns[0]
    assert terminated and info["success"] is (reward == 1.0)
    return reward, info, messages[0]["content"]


def test_there_are_sixty_families_of_functions_with_names_of_their_own() -> None:
    assert len(TEMPLATES) >= 60 and len({template.name for template in TEMPLATES}) == len(TEMPLATES)
    assert all(bank.named(template.name) is template for template in TEMPLATES)
    assert [bank.at_level(level) for level in range(5)] == list(bank.LEVELS)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_family_is_sound(template: bank.Template) -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        problem = template.draw(rng)
        cases = problem.cases(rng)
        assert len({literal(case.wanted) for case in cases}) > 1  # so no constant is right
        for place in range(len(problem.kinds)):  # nor is an argument as it is
            assert not all(same(case.wanted, case.given[place]) for case in cases)
        assert "$" not in problem.line + problem.source and len(problem.line) < 250
        names = {node.id for node in ast.walk(ast.parse(problem.source)) if isinstance(node, ast.Name)}
        assert set(problem.kinds) <= names
        assert all(literal(case) for case in cases)  # plain data, all the way down


def test_no_constant_makes_a_function_that_cannot_be_told_from_simpler_ones() -> None:
    for template in TEMPLATES:
        least = {name: values[0] for name, values in template.ranges.items()}
        for name, values in template.ranges.items():
            for value in values:
                assert template.member({**least, name: value}).cases(np.random.default_rng(0))


def test_a_first_policy_can_learn_the_first_level_as_its_texts_are_short() -> None:
    rng = np.random.default_rng(0)
    for template in bank.at_level(0):
        problem = template.draw(rng)
        assert len(problem.line) <= 20 and len(problem.short) <= 10 and problem.is_expression


def test_longer_inputs_can_be_had_for_measuring() -> None:
    problem = bank.named("sum_plus").member({"k": 7})
    short, long = (problem.cases(np.random.default_rng(0), scale=scale) for scale in (1, 20))
    assert max(len(case.given[0]) for case in short) < 10 < 60 < max(len(case.given[0]) for case in long)


@pytest.mark.parametrize("level", range(5))
def test_splits_share_no_function_and_hold_many_families(level: int) -> None:
    made = Functions(level=level)
    found = {split: made.load(split) for split in ("val", "test")}
    train = [made.load("train")[i] for i in range(0, 20_000, 40)]
    about = {split: {repr(task.metadata) for task in tasks} for split, tasks in [*found.items(), ("train", train)]}
    assert len(about["test"]) == 100 and len(about["val"]) == 50
    assert not about["test"] & about["val"] and not about["test"] & about["train"] and not about["val"] & about["train"]
    families = Counter(task.metadata["template"] for task in found["test"])
    assert len(families) >= len(bank.at_level(level)) - 3 and families.most_common(1)[0][1] <= 30
    assert [t.metadata for t in Functions(level=level, words=True).load("test")] == [t.metadata for t in found["test"]]


@pytest.mark.parametrize("level", range(5))
def test_the_reference_earns_the_maximum_at_every_level(level: int, env: Functions) -> None:
    subject = Subject("code/Functions-v0", {"level": level, "words": level % 2 == 0}, tasks=12)
    for check in (rewards.oracle, rewards.answer_leak):
        assert not list(check(subject))


@pytest.mark.parametrize("form", ["{short}", "```python\n{source}```", "Here:\n```python\n{source}```", "{source}"])
def test_expressions_and_whole_functions_are_accepted(env: Functions, form: str) -> None:
    for index in range(0, 100, 25):
        env.reset(seed=0, options={"split": "test", "index": index})
        reply = form.format(short=env.problem.short, source=env.problem.source)
        assert paid(env, reply, index=index)[0] == 1.0


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("what", [what for what in attacks("f") if what not in attacks("f", slow=False)])
def test_attacks_that_use_up_their_time_earn_nothing(level: int, what: str) -> None:
    made = Functions(level=level, timeout=0.2)
    try:
        reward, info, _ = paid(made, attacks("f")[what])
    finally:
        made.close()
    assert reward == 0.0 and info["metrics"]["passed"] < 1.0


def test_inputs_depend_on_the_seed_alone(env: Functions) -> None:
    def drawn(seed: int) -> str:
        env.reset(seed=seed, options={"split": "test", "index": 3})
        return literal(env.cases())

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_share_is_a_metric_and_a_reward_only_where_it_is_asked_for() -> None:
    kept = Functions(level=0)
    paying = Functions(level=0, partial=True)
    try:
        index = next(i for i, task in enumerate(kept.load("test")) if task.metadata["template"] == "larger")
        for made, wanted in ((kept, 0.0), (paying, None)):
            made.reset(options={"split": "test", "index": index})
            reward, info, word = paid(made, made.problem.params, index=index)  # as it is, and not the larger one
            share = info["metrics"]["passed"]
            assert 0 < share < 1 and reward == (share if wanted is None else wanted)
            assert info["rewards"] == {"right": reward} and word == f"{round(12 * share)}/12 right"
    finally:
        kept.close()
        paying.close()


def test_a_reply_that_no_compiler_reads_is_invalid_and_one_that_fails_is_not(env: Functions) -> None:
    assert paid(env, "a plus seven")[1]["valid"] is False
    assert paid(env, "")[1]["valid"] is False
    assert paid(env, "nothing_of_this_name")[1]["valid"] is True


def test_an_audit_reports_and_may_refuse() -> None:
    reply = "import os\n{source}if not f: os._exit(1)\n"
    for audit, wanted in (("report", 1.0), ("refuse", 0.0)):
        made = Functions(audit=audit)
        try:
            made.reset(seed=0, options={"split": "test", "index": 0})
            source = made.problem.source
            reward, info, word = paid(made, reply.format(source=source))
            assert reward == wanted and info["metrics"]["suspect"] == 1.0 == info["metrics"]["suspect/exits"]
            assert ("refused: exits" in word) is (audit == "refuse")
            assert paid(made, source)[1]["metrics"]["suspect"] == 0.0
        finally:
            made.close()


def test_work_is_a_second_reward_of_right_programs_only() -> None:
    made = Functions(level=1, work=True)
    try:
        made.reset(seed=0, options={"split": "test", "index": 0})
        right = paid(made, made.problem.source)
        assert right[0] == 1.0 and 0 < right[1]["rewards"]["work"] <= 1.0
        assert paid(made, "0")[1]["rewards"] == {"right": 0.0, "work": 0.0}
    finally:
        made.close()


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
def test_wrong_arguments_are_refused_in_a_line(wrong: dict, word: str) -> None:
    with pytest.raises(ValueError, match=word.replace("?", r"\?")):
        Functions(**wrong)


def test_a_fault_of_the_sandbox_is_no_score(env: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def run(self, program: object, **how: object) -> object:
            raise SandboxDied("gone")

    monkeypatch.setattr(type(env.lease), "sandbox", Broken())
    env.reset(seed=0)
    with pytest.raises(SandboxDied):
        env.step("a")


def test_the_other_levels_keep_the_promises_on_cheats() -> None:
    for level in (1, 4):
        assert not list(rewards.attacks(Subject("code/Functions-v0", {"level": level}, tasks=1)))
