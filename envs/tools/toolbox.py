"""What an episode takes from a library of functions, and what it leaves there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envs.tools.functions import Function, called, defined
from envs.tools.library import Library, fitting

OFFERED = 5  # functions shown and loaded in an episode


class Toolbox:
    """A library as one episode after another sees it: the first `version` functions of the file, or all of them."""

    def __init__(self, path: str, version: int | None = None) -> None:
        if version is not None and version < 0:
            raise ValueError(f"library_version {version!r} is less than 0")
        self._library, self._version = Library(path), version
        self.known = 0
        self._offered: list[Function] = []

    @property
    def sources(self) -> list[str]:
        """The code of what is offered."""
        return [function.source for function in self._offered]

    def open(self, problem: str) -> list[str]:
        """Read the file for a new episode; a line about each function that it offers for the problem."""
        functions = [one.function for one in self._library.read()]
        if self._version is not None and len(functions) < self._version:
            raise ValueError(
                f"library_version {self._version} of {self._library.path}: it has {len(functions)} functions"
            )
        functions = functions[: self._version]
        self.known, self._offered = len(functions), fitting(functions, problem, OFFERED)
        return [f"{one.call}: {one.line}" if one.line else one.call for one in self._offered]

    def reused(self, cells: Sequence[str]) -> int:
        """How many of the offered functions an episode called."""
        return len(self._used(cells))

    def keep(self, cells: Sequence[str], loads: Callable[[str], bool]) -> None:
        """Put the functions of a paid episode into the file: those whose code `loads` alone."""
        self._library.add((function for function in defined(cells) if loads(function.source)), self._used(cells))

    def _used(self, cells: Sequence[str]) -> set[str]:
        return called(cells, [function.name for function in self._offered])
