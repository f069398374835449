"""Mutants of the bank's functions: references with a bug that changes their results on some inputs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from envs.code.grading.split_grading import Answer, Case, is_equal
from envs.code.synthesis.bank.template import FUNCTION, Problem
from envs.code.synthesis.bugs import FAMILIES, find_bugs

MAX_STEPS = 3000  # lines that a call of a mutant may run: more than any reference needs


class Mutant(NamedTuple):
    """A wrong program, in the short form of the reference: an expression or a whole function.

    `case_index` is the first visible case that it fails, `answer` what it gives there.
    """

    program: str
    case_index: int
    answer: Answer


class TooManySteps(Exception):
    """A mutant ran more than `MAX_STEPS` lines, and may never end."""


def sample_mutant(
    problem: Problem, rng: np.random.Generator, visible: Sequence[Case], hidden: Sequence[Case]
) -> Mutant | None:
    """Draw a wrong program: the problem's reference with one bug, which fails a visible and a hidden case.

    Returns None if the draw of one bug from each family finds none.
    """
    families = [name for name in FAMILIES if name != "missing"]
    for family in map(str, rng.permutation(families)):
        bugs = find_bugs(problem.source, family)
        if not bugs:
            continue
        source = bugs[int(rng.integers(len(bugs)))].apply(problem.source)
        try:
            failure = _first_failure(source, visible, problem.template.tolerance)
            if failure is None or _first_failure(source, hidden, problem.template.tolerance) is None:
                continue
        except TooManySteps:
            continue
        program = source.partition("return ")[2].strip() if problem.is_expression else source
        return Mutant(program, *failure)
    return None


def _first_failure(source: str, cases: Sequence[Case], tolerance: float) -> tuple[int, Answer] | None:
    """The first case that a mutant fails, and its answer. The code is the project's own, so it runs in this process."""
    names: dict[str, Any] = {}
    exec(compile(source, "<mutant>", "exec"), names)
    for number, case in enumerate(cases):
        answer = _call(names[FUNCTION], case.args)
        if answer.error or not is_equal(answer.value, case.expected, tolerance):
            return number, answer
    return None


def _call(function: Any, args: tuple[Any, ...]) -> Answer:
    """Make one call. Raises TooManySteps after `MAX_STEPS` lines."""
    left = MAX_STEPS

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManySteps
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return Answer(function(*map(_copy, args)))
    except TooManySteps:
        raise
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {error}")
    finally:
        sys.settrace(before)


def _copy(value: Any) -> Any:
    return [_copy(item) for item in value] if type(value) is list else value
