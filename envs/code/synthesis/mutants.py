"""Wrong versions of functions of the bank: which bugs of a reference show on given inputs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from envs.code.grading.split_grading import Answer, Case, same
from envs.code.synthesis.bank.template import FUNCTION, Problem
from envs.code.synthesis.bugs import FAMILIES, bugs

STEPS = 3000  # lines of a wrong version that are run: more than any right one needs


class Spoiled(NamedTuple):
    """A wrong version, as short as the reference is said, and its first wrong answer: the case's number, and what."""

    program: str
    place: int
    answer: Answer


class TooLong(Exception):
    """A version that may never end."""


def spoiled(
    problem: Problem, rng: np.random.Generator, visible: Sequence[Case], hidden: Sequence[Case]
) -> Spoiled | None:
    """A version with one bug that shows on visible and on hidden cases, None if none is found."""
    families = [name for name in FAMILIES if name != "missing"]
    for family in map(str, rng.permutation(families)):
        found = bugs(problem.source, family)
        if not found:
            continue
        source = found[int(rng.integers(len(found)))].made(problem.source)
        try:
            first = _first_wrong(source, visible, problem.template.tolerance)
            if first is None or _first_wrong(source, hidden, problem.template.tolerance) is None:
                continue
        except TooLong:
            continue
        program = source.partition("return ")[2].strip() if problem.is_expression else source
        return Spoiled(program, *first)
    return None


def _first_wrong(source: str, cases: Sequence[Case], tolerance: float) -> tuple[int, Answer] | None:
    """The first case that a version gets wrong, and its answer. It is ours, spoiled by ours: it means no harm."""
    names: dict[str, Any] = {}
    exec(compile(source, "<spoiled>", "exec"), names)
    for number, case in enumerate(cases):
        answer = _answered(names[FUNCTION], case.given)
        if answer.raised or not same(answer.value, case.wanted, tolerance):
            return number, answer
    return None


def _answered(function: Any, given: tuple[Any, ...]) -> Answer:
    """One call, of at most `STEPS` lines."""
    left = STEPS

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooLong
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return Answer(function(*map(_copied, given)))
    except TooLong:
        raise
    except Exception as error:
        return Answer(raised=f"{type(error).__name__}: {error}")
    finally:
        sys.settrace(before)


def _copied(value: Any) -> Any:
    return [_copied(one) for one in value] if type(value) is list else value
