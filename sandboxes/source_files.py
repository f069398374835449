"""Python files and modules that a user names, loaded so that every failure says where it is."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType


def load_source_file(path: str) -> ModuleType:
    """Import the Python file at `path` as a module, executed once per process; what it defines can be pickled.

    Raises ValueError for a missing file, and for one that cannot be executed, with the line where it failed.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise ValueError(f"no file {path!r}")
    with _failures(path, str(file)):
        return _load(file)


def import_source_module(name: str) -> ModuleType:
    """Import the module `name`, such as "mine.games".

    Raises ModuleNotFoundError if the module, or a package that it is in, does not exist, and ValueError if one of them
    cannot be executed, with the file and the line where it failed.
    """
    try:
        spec = importlib.util.find_spec(name)  # imports the packages that it is in
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(failure_text(error, name)) from error
    except (Exception, SystemExit) as error:
        raise ValueError(failure_text(error, name)) from error
    if spec is None:
        raise ModuleNotFoundError(f"no module {name!r}", name=name)
    with _failures(name, spec.origin or ""):
        return import_module(name)


def failure_text(error: BaseException, label: str, file: str = "") -> str:
    """Describe an exception of a user's code in one line: `mine.py, line 3: KeyError: 'x'`.

    `label` is how the user names the code and `file` where it is. Without a line in `file` the line is the last one
    outside of Python's import system, in whatever file it is.
    """
    message = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        place, line = error.filename, error.lineno
        message = error.msg
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_code(frame.filename)]
        own_frames = [frame for frame in frames if frame.filename == file] or frames
        place, line = (own_frames[-1].filename, own_frames[-1].lineno) if own_frames else (None, None)
    where = label if place is None or (place == file and label.endswith(".py")) else place
    return f"{where}{f', line {line}' if line else ''}: {type(error).__name__}{f': {message}' if message else ''}"


@contextmanager
def _failures(label: str, file: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ValueError(failure_text(error, label, file)) from error


def _is_user_code(filename: str) -> bool:
    return filename != __file__ and not filename.startswith("<frozen importlib")


@cache
def _load(file: Path) -> ModuleType:
    name = f"{file.stem}_{hashlib.blake2b(str(file).encode(), digest_size=6).hexdigest()}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
