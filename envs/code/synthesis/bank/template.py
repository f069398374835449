"""A family of functions that differ in constants, and one member of it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from string import Template as Blanks
from typing import Any, NamedTuple

import numpy as np

from envs.code.grading.split_grading import Case, same
from envs.code.synthesis.bank.inputs import Draw

FUNCTION = "f"
PATIENCE = 100


class Template(NamedTuple):
    """A family of functions.

    `takes` lists the parameters with the kind of their inputs, a method of `Draw`: `"xs: numbers, n: natural"`.
    `line` says what is returned, `code` is the reference: an expression, or the body of a function. In all three `$k`
    stands for the constant `k`, which is one of `ranges["k"]`. `words` is a clearer `line` where that is very short.
    """

    name: str
    takes: str
    line: str
    code: str
    ranges: Mapping[str, Sequence[Any]]
    tolerance: float = 0.0
    words: str = ""

    def draw(self, rng: np.random.Generator) -> Problem:
        """A member with constants drawn from their ranges."""
        drawn = {name: _plain(values[int(rng.integers(len(values)))]) for name, values in self.ranges.items()}
        return self.member(drawn)

    def member(self, constants: Mapping[str, Any]) -> Problem:
        """The member with these constants."""
        return Problem(self, dict(constants))


@dataclass(frozen=True)
class Problem:
    """One function to write: `f(xs)` that returns what `line` says."""

    template: Template
    constants: dict[str, Any]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kinds of inputs by parameter."""
        pairs = (part.split(":") for part in self._filled(self.template.takes).split(","))
        return {name.strip(): kind.strip() for name, kind in pairs}

    @property
    def params(self) -> str:
        """`xs, n`."""
        return ", ".join(self.kinds)

    @property
    def line(self) -> str:
        """What the function returns: `the sum of xs plus 7`."""
        return self._filled(self.template.line)

    @property
    def words(self) -> str:
        """What the function returns, for readers of English."""
        return self._filled(self.template.words or self.template.line)

    @property
    def is_expression(self) -> bool:
        """Whether the reference is an expression."""
        return "\n" not in self.template.code

    @property
    def short(self) -> str:
        """The shortest right reply: the expression, or else `source`."""
        return self._filled(self.template.code) if self.is_expression else self.source

    @property
    def source(self) -> str:
        """The reference as a whole function."""
        code = self._filled(self.template.code).strip("\n")
        body = f"return {code}" if self.is_expression else textwrap.dedent(code)
        return f"def {FUNCTION}({self.params}):\n{textwrap.indent(body, '    ')}\n"

    def cases(self, rng: np.random.Generator, number: int = 12, *, scale: int = 1) -> list[Case]:
        """Inputs from the simplest on, with what the reference returns for them: no constant, nor an argument.

        `scale` multiplies the lengths of lists and texts.
        """
        function = _compiled(self.source)
        for _ in range(PATIENCE):
            draw = Draw(rng, tuple(self.constants.values()), scale)
            cases = []
            for size in range(number):
                given = tuple(getattr(draw, kind)(size) for kind in self.kinds.values())
                cases.append(Case(given, function(*(_copy(one) for one in given))))
            if _tell_apart(cases):
                return cases
        raise ValueError(f"{self.template.name} {self.constants}: the inputs do not tell functions apart")

    def _filled(self, text: str) -> str:
        return Blanks(text).substitute(self.constants)


def _tell_apart(cases: list[Case]) -> bool:
    """Whether neither a constant nor an argument as it is would be right in all cases."""
    constant = all(same(case.wanted, cases[0].wanted) for case in cases)
    return not constant and not any(
        all(same(case.wanted, case.given[place]) for case in cases) for place in range(len(cases[0].given))
    )


@lru_cache(4096)
def _compiled(source: str) -> Any:
    """The reference, which is ours: no policy's code ever comes here."""
    names: dict[str, Any] = {}
    exec(compile(source, "<reference>", "exec"), names)
    return names[FUNCTION]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _copy(value: Any) -> Any:
    return [_copy(one) for one in value] if type(value) is list else value
