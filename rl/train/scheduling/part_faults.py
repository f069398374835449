"""Which part of a recipe is at fault when code of a user's ends an update, in one line."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from traceback import walk_tb
from types import CodeType

import torch

from envs.exits import is_stdout_lost
from rl.cli import DISK_ERRNOS
from rl.methods.options import PartError
from rl.methods.recipe import Recipe, function_of
from rl.methods.results import part_label
from sandboxes.own_packages import PACKAGES
from sandboxes.source_files import is_own_file, is_user_file, user_code_line

Lines = Sequence[tuple[CodeType, int]]  # of a traceback, the innermost last


def part_fault(error: BaseException, recipe: Recipe, outer: Lines = ()) -> str:
    """Say which part of a recipe has raised `error`, or which line of a user's code led to it; "" for no such fault.

    No such fault is an error that arose in code of this project, also where a user's has called it: its traceback is
    worth having. Nor is what is reported in its own way: this project's types other than `PartError`, memory or a disk
    that is full, and standard output that is gone. Of a group of exceptions the first fault counts. `outer` are lines
    that led to `error` and are not in its traceback.
    """
    lines = [*outer, *((frame.f_code, line or 0) for frame, line in walk_tb(error.__traceback__))]
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, (part_fault(one, recipe, lines) for one in error.exceptions)), "")
    if isinstance(error, PartError):
        return str(error)
    if not isinstance(error, Exception) or _has_own_report(error):
        return ""
    label, place = _part_among(lines, recipe)
    if _is_own_fault(lines, recipe) or not (place := user_code_line(error) or place):
        return ""
    name, text = type(error).__name__, " ".join(str(error).split()) or "no message"
    return f"{label}: raised {name}: {text} ({place})" if label else f"{place}: {name}: {text}"


def _has_own_report(error: Exception) -> bool:
    is_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    if type(error).__module__.partition(".")[0] in PACKAGES or is_memory:
        return True
    if isinstance(error, OSError) and (isinstance(error, BrokenPipeError) or error.errno in DISK_ERRNOS):
        return True
    return isinstance(error, (AttributeError, ValueError)) and is_stdout_lost()


def _part_among(lines: Lines, recipe: Recipe) -> tuple[str, str]:
    """Return the label of the innermost part of a user's own among the lines, and its line; "" without one."""
    parts = {_code(part): (place.partition(".")[0], part) for place, part in recipe.parts()}
    for code, line in reversed(lines):
        if code in parts and not is_own_file(code.co_filename):
            return part_label(*parts[code]), f"{code.co_filename}, line {line}"
    return "", ""


def _is_own_fault(lines: Lines, recipe: Recipe) -> bool:
    """Whether code of this project, which a user's may have called, is where an error arose; libraries aside."""
    parts = {_code(part) for _, part in recipe.parts()}
    for code, _ in reversed(lines):
        if is_own_file(code.co_filename):
            return True
        if code in parts or is_user_file(code.co_filename):
            return False
    return True


def _code(part: object) -> CodeType | None:
    function = function_of(part)
    if inspect.isclass(function):
        function = function.__call__
    return getattr(inspect.unwrap(function), "__code__", None)
