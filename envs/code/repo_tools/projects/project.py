"""A small Python project with blanks, and one filled in: its modules can be run here, as they are ours."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from string import Template as Blanks
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from envs.code.repo_tools.projects.kinds import KINDS

Modules = Mapping[str, str]  # the source of each module by its name


class Project(NamedTuple):
    """Modules that import each other, in an order in which each comes after those that it imports.

    `takes` names functions that can be called, `"prices.with_tax"`, with the kinds of their arguments, keys of `KINDS`.
    In the sources `$k` stands for the constant `k`, which is one of `ranges["k"]`.
    """

    name: str
    modules: Modules
    takes: Mapping[str, str]
    ranges: Mapping[str, Sequence[Any]]

    @property
    def size(self) -> int:
        """How many choices of constants there are."""
        return prod(map(len, self.ranges.values()))

    def filled(self, number: int) -> dict[str, str]:
        """The modules with one of the `size` choices of constants."""
        chosen = {}
        for name, values in self.ranges.items():
            number, place = divmod(number, len(values))
            chosen[name] = values[place]
        return {name: Blanks(source.lstrip("\n")).substitute(chosen) for name, source in self.modules.items()}

    def given(self, function: str, rng: np.random.Generator) -> tuple[Any, ...]:
        """Arguments for a function."""
        return tuple(KINDS[kind.strip()](rng) for kind in self.takes[function].split(","))


class Raised(NamedTuple):
    """What a call came to that returned nothing: the exception in one line."""

    error: str


class Loaded:
    """Modules that have been run. Only for sources of ours."""

    def __init__(self, modules: Modules) -> None:
        self._spaces: dict[str, dict[str, Any]] = {}
        for name, source in modules.items():
            names = {"__name__": name, "__builtins__": {**vars(builtins), "__import__": self._imported}}
            self._spaces[name] = names
            exec(_compiled(name, source), names)

    def call(self, function: str, given: Sequence[Any]) -> Any:
        """The value of `module.function(*given)`, or `Raised`."""
        module, _, name = function.partition(".")
        try:
            return self._spaces[module][name](*given)
        except Exception as error:
            return Raised(f"{type(error).__name__}: {error}")

    def _imported(self, name: str, *_: Any) -> Any:
        return _Module(self._spaces[name])


class _Module:
    def __init__(self, space: dict[str, Any]) -> None:
        self.__dict__ = space


@lru_cache(maxsize=4096)
def _compiled(name: str, source: str) -> CodeType:
    return compile(source, f"{name}.py", "exec")
