"""Mutants of the bank's functions: references with a bug that changes their results on some inputs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.code.grading.split_grading import Answer, Case, is_equal
from envs.code.synthesis.bank.template import FUNCTION, Problem
from envs.code.synthesis.bugs import FAMILIES, find_bugs

MAX_STEPS = 10_000  # passes that all loops of a call may make: more than any reference needs
STEP, EACH = "_step", "_each"  # names of a mutant's counters, which no reference uses


class Mutant(NamedTuple):
    """A wrong program, in the short form of the reference: an expression or a whole function.

    `case_index` is the first visible case that it fails, `answer` what it gives there.
    """

    program: str
    case_index: int
    answer: Answer


class TooManySteps(Exception):
    """The loops of a mutant made more than `MAX_STEPS` passes, and may never end."""


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
    function, steps = _load(source)
    for number, case in enumerate(cases):
        steps.left = MAX_STEPS
        answer = _call(function, case.args)
        if answer.error or not is_equal(answer.value, case.expected, tolerance):
            return number, answer
    return None


def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Answer:
    """Make one call. Raises TooManySteps after `MAX_STEPS` passes of its loops."""
    try:
        return Answer(function(*map(_copy, args)))
    except TooManySteps:
        raise
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {error}")


def _load(source: str) -> tuple[Callable[..., Any], _Steps]:
    """Return a mutant's function, whose loops count, and the counter."""
    steps = _Steps()
    names: dict[str, Any] = {STEP: steps.step, EACH: steps.each}
    exec(compile(ast.fix_missing_locations(_CountPasses().visit(ast.parse(source))), "<mutant>", "exec"), names)
    return names[FUNCTION], steps


class _Steps:
    """A counter of the passes that all loops of one call make."""

    left = MAX_STEPS

    def step(self) -> bool:
        """Count one pass. Raises TooManySteps when none is left."""
        self.left -= 1
        if self.left < 0:
            raise TooManySteps
        return True

    def each(self, values: Iterable[Any]) -> Iterator[Any]:
        """Iterate over `values` and count each pass."""
        for value in values:
            self.step()
            yield value


class _CountPasses(ast.NodeTransformer):
    """Makes loops and comprehensions count their passes.

    A trace function would need no change of the code, but CPython 3.11.7 was seen to loop for ever below Python, in a
    call that was traced after many calls whose trace function had raised.
    """

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.test = ast.BoolOp(ast.And(), [_call_of(STEP), node.test])
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _call_of(EACH, node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = _call_of(EACH, node.iter)
        return node


def _call_of(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [*arguments], [])


def _copy(value: Any) -> Any:
    return [_copy(item) for item in value] if type(value) is list else value
