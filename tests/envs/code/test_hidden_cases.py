"""Programs that are nearly right fail: mutants of the references, by operators that no environment here uses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from envs.code.functions import Functions
from envs.code.grading.split_grading import Case, is_equal
from envs.code.repair import Repair
from envs.code.synthesis.bank.template import Problem
from tests.support.mutation import load, mutants

REFERENCE = 72  # further inputs, by which a mutant counts as wrong
TASKS = 16


def is_wrong(mutant: Callable[..., Any], cases: Sequence[Case], tolerance: float) -> bool:
    for case in cases:
        try:
            if not is_equal(mutant(*case.args), case.expected, tolerance):
                return True
        except Exception:
            return True
    return False


def passing(problem: Problem, cases: Sequence[Case]) -> tuple[int, int]:
    """How many of a function's wrong mutants pass the cases, and how many wrong mutants it has."""
    passed = total = 0
    rest = problem.cases(np.random.default_rng(1), REFERENCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        functions = [load(source) for source in mutants(problem.source)]
    for mutant in functions:
        if is_wrong(mutant, cases, problem.template.tolerance):
            total += 1
        elif is_wrong(mutant, rest, problem.template.tolerance):
            total, passed = total + 1, passed + 1
    return passed, total


@pytest.mark.parametrize("level", [3, 4])
def test_fewer_than_one_in_a_hundred_wrong_functions_pass_the_hidden_cases(level: int) -> None:
    env = Functions(level=level)
    counts = []
    for index in range(TASKS):
        env.reset(seed=index, options={"split": "test", "index": index})
        counts.append(passing(env.problem, env.cases()))
    passed, total = map(sum, zip(*counts, strict=True))
    assert total > 400 and passed < total / 100, counts


def test_fewer_than_one_in_a_hundred_wrong_repairs_pass_the_hidden_cases() -> None:
    env = Repair(level=3)
    counts = []
    for index in range(TASKS):
        env.reset(seed=index, options={"split": "test", "index": index})
        cases = [*env._visible_cases, *env._hidden_cases]
        assert not {repr(case.args) for case in env._visible_cases} & {repr(case.args) for case in env._hidden_cases}
        counts.append(passing(env.problem, cases))
    passed, total = map(sum, zip(*counts, strict=True))
    assert total > 400 and passed < total / 100, counts
