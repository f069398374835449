"""Functions in a JSON file that only grows, and the choice of those that fit a problem."""

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
from envs.tools.function_extraction import LibraryFunction, canonical_form

MAX_FUNCTIONS = 200  # in a file


class Entry(NamedTuple):
    """A function and the number of rewarded episodes that used it after the one that wrote it."""

    function: LibraryFunction
    uses: int = 0


class Library:
    """The functions in a JSON file. They are never changed nor removed, so the first n of them are always the same.

    Processes may share the file: a writer locks its folder and replaces the whole file at once. Raises ValueError, one
    line, for a folder that does not exist and for a file that is no library.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().absolute()
        if not self.path.parent.is_dir():
            raise ValueError(f"library {str(path)!r}: there is no folder {self.path.parent}")
        self.read()

    def read(self) -> list[Entry]:
        """Return all entries, oldest first; none where there is no file yet. Raises ValueError if it is no library."""
        try:
            rows = json.loads(self.path.read_text(encoding="utf-8"))["functions"]
            return [
                Entry(LibraryFunction(*(str(row[field]) for field in LibraryFunction._fields)), int(row["uses"]))
                for row in rows
            ]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, LookupError, OSError) as error:
            raise ValueError(f"library {str(self.path)!r} cannot be read: {type(error).__name__}: {error}") from None

    def add(self, functions: Iterable[LibraryFunction], used: Iterable[str] = ()) -> None:
        """Append functions to the file, and count one more use of each function named in `used`.

        A function is left out if its name is there already, if one that is there differs from it in names, docstring
        and layout only, or if the file is full (`MAX_FUNCTIONS`).
        """
        functions, used_names = list(functions), set(used)
        if not functions and not used_names:
            return
        with self._lock():
            entries = [Entry(entry.function, entry.uses + (entry.function.name in used_names)) for entry in self.read()]
            names = {entry.function.name for entry in entries}
            forms = {canonical_form(entry.function.source) for entry in entries}
            for function in functions:
                form = canonical_form(function.source)
                if function.name in names or form in forms or len(entries) >= MAX_FUNCTIONS:
                    continue
                entries.append(Entry(function))
                names.add(function.name)
                forms.add(form)
            self._write(entries)

    def _write(self, entries: Sequence[Entry]) -> None:
        rows = [{**entry.function._asdict(), "uses": entry.uses} for entry in entries]
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
    def _lock(self) -> Iterator[None]:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)  # not the file, which a writer replaces
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def rank_functions(functions: Sequence[LibraryFunction], problem: str, limit: int) -> list[LibraryFunction]:
    """Choose at most `limit` functions: those whose names and docstrings match `problem` best by BM25, then the oldest.

    `problem` is the text of the problem; the best match comes first.
    """
    index = BM25([f"{function.name.replace('_', ' ')} {function.line}" for function in functions])
    order = dict.fromkeys([*index.best(problem, limit), *range(len(functions))])
    return [functions[i] for i in order][:limit]
