"""The functions that an episode gets from a library, and those that it adds to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envs.tools.function_extraction import LibraryFunction, called_names, extract_functions
from envs.tools.library import Library, rank_functions

MAX_OFFERS = 5  # functions shown and loaded in an episode


class Toolbox:
    """A library as one episode after another uses it.

    `version` is the number of functions of the file, from its first, that episodes may see; None for all of them.
    Raises ValueError for a negative version, and in `open` for one beyond the end of the file.
    """

    def __init__(self, path: str, version: int | None = None) -> None:
        if version is not None and version < 0:
            raise ValueError(f"library_version {version!r} is less than 0")
        self._library, self._version = Library(path), version
        self.size = 0  # functions in the library when the episode began
        self._offers: list[LibraryFunction] = []

    @property
    def sources(self) -> list[str]:
        """The code of the functions offered to this episode."""
        return [function.source for function in self._offers]

    def open(self, problem: str) -> list[str]:
        """Read the file for a new episode; return a line about each function offered for `problem`."""
        functions = [entry.function for entry in self._library.read()]
        if self._version is not None and len(functions) < self._version:
            raise ValueError(
                f"library_version {self._version} of {self._library.path}: it has {len(functions)} functions"
            )
        functions = functions[: self._version]
        self.size, self._offers = len(functions), rank_functions(functions, problem, MAX_OFFERS)
        return [f"{offer.call}: {offer.line}" if offer.line else offer.call for offer in self._offers]

    def count_reused(self, cells: Sequence[str]) -> int:
        """How many of the offered functions the code of an episode calls."""
        return len(self._used_names(cells))

    def add_functions(self, cells: Sequence[str], loads: Callable[[str], bool]) -> None:
        """Add the functions of a rewarded episode to the library: those whose source `loads` alone."""
        functions = (function for function in extract_functions(cells) if loads(function.source))
        self._library.add(functions, self._used_names(cells))

    def _used_names(self, cells: Sequence[str]) -> set[str]:
        return called_names(cells, [function.name for function in self._offers])
