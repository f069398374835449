"""Load a function that a user names on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envs.suggestions import unknown_message
from sandboxes.source_files import import_source_module, load_source_file


def load_function(spec: str) -> Callable[..., Any]:
    """Return the function `spec`, as "module:function" or "path/to/file.py:function".

    Raises ValueError for another form, for a missing module, file or function, and for code that fails to import.
    """
    source, colon, name = spec.rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise ValueError(f"{spec!r} is not of the form module:function or path/to/file.py:function")
    try:
        module = load_source_file(source) if source.endswith(".py") else import_source_module(source)
    except ModuleNotFoundError:
        raise ValueError(f"no module {source!r} for the function {spec!r}") from None
    function = getattr(module, name, None)
    if not callable(function):
        choices = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ValueError(unknown_message("function", name, choices, of=source))
    return function
