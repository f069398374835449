"""A family of functions that differ in their constants, and one member of such a family."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from string import Template as Blanks
from typing import Any, NamedTuple

import numpy as np

from envs.code.grading.split_grading import Case, is_equal
from envs.code.synthesis.bank.inputs import InputSampler

FUNCTION = "f"
MAX_TRIES = 100  # to draw cases that tell functions apart


class Template(NamedTuple):
    """A family of functions.

    In `parameters`, `description` and `code`, `$k` stands for the constant `k`, which is one of `ranges["k"]`.

    Attributes:
        name: Unique in the bank.
        parameters: The parameters, each with a method of `InputSampler`: `"xs: numbers, n: natural"`.
        description: What the function returns, in few words.
        code: The reference: an expression, or the body of the function.
        ranges: The values that each constant may have.
        tolerance: The relative and absolute tolerance of results that are floats.
        sentence: A clearer description where `description` is very short; "" where it is clear enough.
    """

    name: str
    parameters: str
    description: str
    code: str
    ranges: Mapping[str, Sequence[Any]]
    tolerance: float = 0.0
    sentence: str = ""

    def draw(self, rng: np.random.Generator) -> Problem:
        """Draw a member: the function with constants drawn from their ranges."""
        constants = {name: _to_python(values[int(rng.integers(len(values)))]) for name, values in self.ranges.items()}
        return self.member(constants)

    def member(self, constants: Mapping[str, Any]) -> Problem:
        """Return the member with these constants, by name."""
        return Problem(self, dict(constants))


@dataclass(frozen=True)
class Problem:
    """One function to write, a member of a template: `f(xs)` that returns what `description` says."""

    template: Template
    constants: dict[str, Any]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The name of each parameter with the method of `InputSampler` that draws its inputs: `{"xs": "numbers"}`."""
        pairs = (part.split(":") for part in self._fill(self.template.parameters).split(","))
        return {name.strip(): kind.strip() for name, kind in pairs}

    @property
    def params(self) -> str:
        """The names of the parameters, `xs, n`."""
        return ", ".join(self.kinds)

    @property
    def description(self) -> str:
        """What the function returns, in few words: `the sum of xs plus 7`."""
        return self._fill(self.template.description)

    @property
    def sentence(self) -> str:
        """What the function returns, to complete a sentence of prose."""
        return self._fill(self.template.sentence or self.template.description)

    @property
    def is_expression(self) -> bool:
        """Whether the reference, a right program, is a single expression."""
        return "\n" not in self.template.code

    @property
    def shortest(self) -> str:
        """The shortest right reply: the expression, or else the whole function."""
        return self._fill(self.template.code) if self.is_expression else self.source

    @property
    def source(self) -> str:
        """The reference, a right program, as a whole function."""
        code = self._fill(self.template.code).strip("\n")
        body = f"return {code}" if self.is_expression else textwrap.dedent(code)
        return f"def {FUNCTION}({self.params}):\n{textwrap.indent(body, '    ')}\n"

    def cases(self, rng: np.random.Generator, number: int = 12, *, scale: int = 1) -> list[Case]:
        """Draw `number` cases, from simple inputs to larger ones, with the reference's results.

        No constant function, and none that returns one of its arguments, is right on all of them. `scale` multiplies
        the lengths of lists and texts. Raises ValueError where such cases are not found in `MAX_TRIES` draws.
        """
        function = _load(self.source)
        for _ in range(MAX_TRIES):
            sampler = InputSampler(rng, tuple(self.constants.values()), scale)
            cases = []
            for size in range(number):
                args = tuple(getattr(sampler, kind)(size) for kind in self.kinds.values())
                cases.append(Case(args, function(*(_copy(arg) for arg in args))))
            if _tell_apart(cases):
                return cases
        raise ValueError(f"{self.template.name} {self.constants}: the inputs do not tell functions apart")

    def _fill(self, text: str) -> str:
        return Blanks(text).substitute(self.constants)


def _tell_apart(cases: list[Case]) -> bool:
    """Whether neither a constant nor any argument is the expected value of all cases."""
    constant = all(is_equal(case.expected, cases[0].expected) for case in cases)
    return not constant and not any(
        all(is_equal(case.expected, case.args[i]) for case in cases) for i in range(len(cases[0].args))
    )


@lru_cache(4096)
def _load(source: str) -> Any:
    """The reference as a function. Only the project's own code runs in this process, never a policy's."""
    names: dict[str, Any] = {}
    exec(compile(source, "<reference>", "exec"), names)
    return names[FUNCTION]


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _copy(value: Any) -> Any:
    return [_copy(item) for item in value] if type(value) is list else value
