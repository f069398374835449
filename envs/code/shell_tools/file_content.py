"""Names and words for small files, each drawn once per task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.code.shell_tools.file_tree import PLAIN, Entry, Tree, file, folder

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = (
    "ant ash bay bee cat cod cow dew dog elk elm fig fir fox hay hen ivy jay koi oak owl pea pig ram rat rye sea sky "
    "sun yak yew"
)
WORDS = tuple(_WORDS.split())
TAKEN = {"as", "at", "bc", "cc", "cd", "cp", "dc", "dd", "df", "do", "du", "ed", "ex", "fg", "fi", "go", "id", "if",
         "in", "ip", "ld", "ln", "ls", "mv", "nl", "nm", "od", "pg", "pr", "ps", "rm", "sh", "su", "tr", "ul", "vi",
         "wc"}  # fmt: skip  # names of commands


class Sketch:
    """A tree that is being drawn. Every name and word it gives is another one."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.tree, self._used = rng, Tree(), set(TAKEN)

    def name(self, ending: str = "") -> str:
        """Two letters and the ending."""
        while True:
            stem = "".join(LETTERS[i] for i in self.rng.integers(len(LETTERS), size=2))
            if stem not in self._used:
                self._used.add(stem)
                return stem + ending

    def word(self) -> str:
        """A word of three letters."""
        while True:
            word = self.one_of(WORDS)
            if word not in self._used:
                self._used.add(word)
                return word

    def one_of(self, things: Sequence[str]) -> str:
        """Any of them."""
        return things[int(self.rng.integers(len(things)))]

    def number(self, least: int, most: int) -> int:
        """A number of `least`..`most`."""
        return int(self.rng.integers(least, most + 1))

    def file(self, ending: str = ".txt", text: str | None = None, *, under: str = "", mode: int = PLAIN) -> str:
        """Put a file there, with a line of its own if no text is given; its path."""
        path = under + self.name(ending)
        self.tree[path] = file(f"{self.word()}\n" if text is None else text, mode)
        return path

    def folder(self, under: str = "") -> str:
        """Put an empty folder there; its path."""
        path = under + self.name()
        self.tree[path] = folder()
        return path

    def lines(self, least: int, most: int, words: Sequence[str] = ()) -> str:
        """A text of so many lines, each of one of `words`, or all different."""
        size = self.number(least, most)
        return "".join(f"{self.one_of(words) if words else self.word()}\n" for _ in range(size))

    def wanted(self, *gone: str) -> dict[str, Entry]:
        """The tree without the paths in `gone`."""
        return {path: entry for path, entry in self.tree.items() if path not in gone}
