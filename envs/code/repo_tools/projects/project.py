"""A small Python project with placeholders for constants, and its modules loaded into this process."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from string import Template as Blanks
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from envs.code.repo_tools.projects.argument_samplers import ARGUMENT_SAMPLERS

Modules = Mapping[str, str]  # the source of each module by its name


class Project(NamedTuple):
    """A small project: modules that import each other; each comes after those that it imports.

    `signatures` maps the functions that can be called, `"prices.with_tax"`, to the kinds of their arguments, keys of
    `ARGUMENT_SAMPLERS` separated by commas. In the sources `$k` stands for the constant `k`, which is one of
    `ranges["k"]`.
    """

    name: str
    modules: Modules
    signatures: Mapping[str, str]
    ranges: Mapping[str, Sequence[Any]]

    @property
    def size(self) -> int:
        """The number of ways to choose the constants."""
        return prod(map(len, self.ranges.values()))

    def fill(self, number: int) -> dict[str, str]:
        """Return the source of each module by name, with the constants that `number`, from 0 to `size - 1`, chooses."""
        constants = {}
        for name, values in self.ranges.items():
            number, i = divmod(number, len(values))
            constants[name] = values[i]
        return {name: Blanks(source.lstrip("\n")).substitute(constants) for name, source in self.modules.items()}

    def sample_args(self, function: str, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw arguments for a function, a key of `signatures` such as `"prices.with_tax"`."""
        return tuple(ARGUMENT_SAMPLERS[kind.strip()](rng) for kind in self.signatures[function].split(","))


class CallError(NamedTuple):
    """The result of a call that raised: the exception in one line."""

    error: str


class LoadedProject:
    """Modules loaded into this process: only for the project's own sources, never for a policy's.

    `modules` maps names to sources, each after those that it imports.
    """

    def __init__(self, modules: Modules) -> None:
        self._namespaces: dict[str, dict[str, Any]] = {}
        for name, source in modules.items():
            names = {"__name__": name, "__builtins__": {**vars(builtins), "__import__": self._import}}
            self._namespaces[name] = names
            exec(_compile(name, source), names)

    def call(self, function: str, args: Sequence[Any]) -> Any:
        """Call a function, `"prices.with_tax"`, and return its value, or a `CallError` where it raises."""
        module, _, name = function.partition(".")
        try:
            return self._namespaces[module][name](*args)
        except Exception as error:
            return CallError(f"{type(error).__name__}: {error}")

    def _import(self, name: str, *_: Any) -> Any:
        return _Module(self._namespaces[name])


class _Module:
    def __init__(self, namespace: dict[str, Any]) -> None:
        self.__dict__ = namespace


@lru_cache(maxsize=4096)
def _compile(name: str, source: str) -> CodeType:
    return compile(source, f"{name}.py", "exec")
