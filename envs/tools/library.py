"""Functions kept in a JSON file that only grows, and which of them fit a problem."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from envs.tools.bm25 import BM25
from envs.tools.functions import Function, meaning

MOST = 200  # functions in a file


class Kept(NamedTuple):
    """A function and in how many paid episodes it was used after the one that wrote it."""

    function: Function
    uses: int = 0


class Library:
    """The functions of one file. They are never changed nor taken out, so their number tells which ones they are.

    Processes may share the file: whoever writes locks its folder and puts a whole new file in place of the old one.
    Raises ValueError, one line, for a folder that is not there and for a file that is no library.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().absolute()
        if not self.path.parent.is_dir():
            raise ValueError(f"library {str(path)!r}: there is no folder {self.path.parent}")
        self.read()

    def read(self) -> list[Kept]:
        """All that is kept, in the order of its coming; nothing where there is no file yet."""
        try:
            rows = json.loads(self.path.read_text(encoding="utf-8"))["functions"]
            return [Kept(Function(*(str(row[field]) for field in Function._fields)), int(row["uses"])) for row in rows]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, LookupError, OSError) as fault:
            raise ValueError(f"library {str(self.path)!r} cannot be read: {type(fault).__name__}: {fault}") from None

    def add(self, functions: Iterable[Function], used: Iterable[str] = ()) -> None:
        """Keep functions and count one use for those named in `used`.

        One whose name is taken, or that means the same as one that is there, is not kept; nor is any in a full file.
        """
        functions, names = list(functions), set(used)
        if not functions and not names:
            return
        with self._alone():
            kept = [Kept(one.function, one.uses + (one.function.name in names)) for one in self.read()]
            taken = {one.function.name for one in kept}
            meanings = {meaning(one.function.source) for one in kept}
            for function in functions:
                what = meaning(function.source)
                if function.name in taken or what in meanings or len(kept) >= MOST:
                    continue
                kept.append(Kept(function))
                taken.add(function.name)
                meanings.add(what)
            self._write(kept)

    def _write(self, kept: Sequence[Kept]) -> None:
        rows = [{**one.function._asdict(), "uses": one.uses} for one in kept]
        descriptor, path = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"functions": rows}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path, self.path)
        except BaseException:
            os.unlink(path)
            raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)  # the file itself is replaced under its lock
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def fitting(functions: Sequence[Function], problem: str, most: int) -> list[Function]:
    """At most `most` functions: those whose names and docstrings fit a problem best, by BM25, then the oldest."""
    index = BM25([f"{function.name.replace('_', ' ')} {function.line}" for function in functions])
    order = dict.fromkeys([*index.best(problem, most), *range(len(functions))])
    return [functions[number] for number in order][:most]
