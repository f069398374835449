"""Exceptions that pass from a worker to the run, with their types, texts and causes as far as these can be sent."""

from __future__ import annotations

import builtins
import pickle
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from envs.exits import error_text
from sandboxes.source_files import user_code_line

_LINE = "turnwise_line"  # attribute of an error that a worker sent
MAX_CAUSES = 8
MAX_TRACEBACK = 20_000  # characters


class WorkerDied(RuntimeError):
    """A worker's process ended during a call, and again during its repetition, which was alone in the process."""


class Unsendable(TypeError):
    """A result cannot be sent from a worker's process to the run."""


class ReplayDiverged(RuntimeError):
    """An environment whose worker died does not answer the replies of its episode as it did the first time."""


class _Report(NamedTuple):
    """One exception of a chain: the names of its classes up to a builtin one, that one, its text, and its pickle."""

    names: Sequence[str]
    builtin: str
    text: str
    data: bytes


def dump_error(error: BaseException) -> bytes:
    """Return the content of the `Answer` to a call that raised `error`."""
    reports: list[_Report] = []
    link: BaseException | None = error
    while link is not None and len(reports) < MAX_CAUSES:
        reports.append(_report(link))
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    text = "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
    return pickle.dumps((reports, text, user_code_line(error)))


def load_error(content: bytes) -> Exception:
    """Return the exception that `dump_error` was given.

    A type that is not to be had here is replaced by one of the same name. The traceback in the worker is a note of it.
    """
    reports, text, line = pickle.loads(content)
    chain = [_rebuild(report) for report in reports]
    for error, cause in pairwise(chain):
        error.__cause__ = cause
    chain[0].add_note(f"in a worker:\n{text}")
    setattr(chain[0], _LINE, line)
    return chain[0]


def line_in_worker(error: BaseException) -> str:
    """Return the line of a user's code, as `user_code_line` does, of an error that a worker sent; else ""."""
    return str(getattr(error, _LINE, ""))


def _report(error: BaseException) -> _Report:
    own = [cls for cls in type(error).__mro__ if cls.__module__ != "builtins"]
    builtin = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
    text = _text(error)
    try:
        data = pickle.dumps(error)
        if not _is_same(pickle.loads(data), error, text):
            data = pickle.dumps(type(error))
    except Exception:  # the class may come from anywhere
        data = b""
    return _Report([cls.__name__ for cls in own], builtin.__name__, text, data)


def _is_same(copy: Any, error: BaseException, text: str) -> bool:
    return type(copy) is type(error) and _text(copy) == text and error_text(copy) == error_text(error)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the class may come from anywhere
        return ""


def _rebuild(report: _Report) -> Exception:
    error: Any = None
    cls: Any
    try:
        error = pickle.loads(report.data) if report.data else None
        if isinstance(error, type):
            cls = error
            error = cls.__new__(cls)
            error.args = (report.text,)
    except Exception:  # its class cannot be imported, or not made
        error = None
    if isinstance(error, Exception) and _text(error) == report.text:
        return error
    cls = getattr(builtins, report.builtin, RuntimeError)
    if not issubclass(cls, Exception):
        cls = RuntimeError
    for name in reversed(report.names or [report.builtin]):
        cls = type(name, (cls,), {"__str__": lambda self: self.args[0], "__module__": __name__})
    error = cls.__new__(cls)
    error.args = (report.text,)
    return error
