"""Build a random tree of small files; no name and no word is drawn twice in a tree."""

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
COMMANDS = {"as", "at", "bc", "cc", "cd", "cp", "dc", "dd", "df", "do", "du", "ed", "ex", "fg", "fi", "go", "id", "if",
         "in", "ip", "ld", "ln", "ls", "mv", "nl", "nm", "od", "pg", "pr", "ps", "rm", "sh", "su", "tr", "ul", "vi",
         "wc"}  # fmt: skip  # which no file may be called


class TreeBuilder:
    """A random tree of files under construction, `tree`. Every name and word that it gives is a new one."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.tree, self._used_names = rng, Tree(), set(COMMANDS)

    def name(self, ending: str = "") -> str:
        """Draw a new name: two letters and the ending."""
        while True:
            stem = "".join(LETTERS[i] for i in self.rng.integers(len(LETTERS), size=2))
            if stem not in self._used_names:
                self._used_names.add(stem)
                return stem + ending

    def word(self) -> str:
        """Draw a new word of three letters."""
        while True:
            word = self.choice(WORDS)
            if word not in self._used_names:
                self._used_names.add(word)
                return word

    def choice(self, options: Sequence[str]) -> str:
        """Draw one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def number(self, least: int, most: int) -> int:
        """Draw an integer from `least` to `most`, both included."""
        return int(self.rng.integers(least, most + 1))

    def file(self, ending: str = ".txt", text: str | None = None, *, under: str = "", mode: int = PLAIN) -> str:
        """Add a file with a new name and the ending to the tree and return its path.

        Args:
            ending: The end of the name.
            text: The content; None for a line with a new word.
            under: The folder that holds the file, with its slash, `"ab/"`; "" for the top.
            mode: The permission bits.
        """
        path = under + self.name(ending)
        self.tree[path] = file(f"{self.word()}\n" if text is None else text, mode)
        return path

    def folder(self, under: str = "") -> str:
        """Add an empty folder and return its path, `ab/cd`; `under` is the folder that holds it, `"ab/"`, or ""."""
        path = under + self.name()
        self.tree[path] = folder()
        return path

    def lines(self, least: int, most: int, words: Sequence[str] = ()) -> str:
        """Draw a text of `least` to `most` lines, each of one of `words` or, without them, of a new word."""
        size = self.number(least, most)
        return "".join(f"{self.choice(words) if words else self.word()}\n" for _ in range(size))

    def tree_without(self, *paths: str) -> dict[str, Entry]:
        """Copy the tree without some paths."""
        return {path: entry for path, entry in self.tree.items() if path not in paths}
