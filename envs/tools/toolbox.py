"""The functions that an episode gets from a library, and those that it adds to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envs.tools.function_extraction import LibraryFunction, called_names, extract_functions
from envs.tools.library import Library, rank_functions

MAX_OFFERS = 5  # functions shown and loaded in an episode


class Toolbox:
    """A library of functions, a file that episodes read and add to, as one episode after another uses it.

    Args:
        path: The library's JSON file; it may not exist yet, its folder must.
        version: How many functions of the file, from its first, episodes may see; None for all of them.

    Raises:
        ValueError: A negative version, a missing folder, or a file that is no library.
    """

    def __init__(self, path: str, version: int | None = None) -> None:
        if version is not None and version < 0:
            raise ValueError(f"library_version {version!r} is less than 0")
        self._library, self._version = Library(path), version
        self.size = 0  # functions in the library when the episode began
        self._offers: list[LibraryFunction] = []

    @property
    def sources(self) -> list[str]:
        """The code of each function offered to this episode, with the imports and functions it needs."""
        return [function.source for function in self._offers]

    def open(self, problem: str) -> list[str]:
        """Begin an episode: read the file and choose the functions that fit the text `problem` best.

        Returns a line about each of them, at most `MAX_OFFERS`: `call: description`, or `call` for a function without a
        docstring. Raises ValueError if the file has fewer functions than `version`.
        """
        functions = [entry.function for entry in self._library.read()]
        if self._version is not None and len(functions) < self._version:
            raise ValueError(
                f"library_version {self._version} of {self._library.path}: it has {len(functions)} functions"
            )
        functions = functions[: self._version]
        self.size, self._offers = len(functions), rank_functions(functions, problem, MAX_OFFERS)
        return [f"{offer.call}: {offer.line}" if offer.line else offer.call for offer in self._offers]

    def count_reused(self, cells: Sequence[str]) -> int:
        """Count the offered functions that an episode's pieces of code `cells` call and do not define themselves."""
        return len(self._used_names(cells))

    def add_functions(self, cells: Sequence[str], loads: Callable[[str], bool]) -> None:
        """Add the functions of a rewarded episode to the file, and count the use of those that were offered and called.

        Args:
            cells: The pieces of code that the episode ran, in order.
            loads: Whether a source text runs without an error by itself; functions for which it is False are left out.
        """
        functions = (function for function in extract_functions(cells) if loads(function.source))
        self._library.add(functions, self._used_names(cells))

    def _used_names(self, cells: Sequence[str]) -> set[str]:
        return called_names(cells, [function.name for function in self._offers])
