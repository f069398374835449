"""Python files that a user names by path, loaded as modules."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType


def load_source_file(path: str) -> ModuleType:
    """Import the Python file at `path` as a module, executed once per process; what it defines can be pickled.

    Raises ValueError for a missing file, and for one that raises while it is executed, with the line where it did.
    ImportError and SyntaxError are passed on, as their messages already say that.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise ValueError(f"no file {path!r}")
    try:
        return _load(file)
    except (ImportError, SyntaxError):
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(file)] or [""]
        raise ValueError(f"{path}{lines[-1]}: {type(error).__name__}: {error}") from error


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
