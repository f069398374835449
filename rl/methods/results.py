"""What is wrong with the result of a part, in the same words when a run starts and while it is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rl.records import Group


def part_label(slot: str, part: Callable[..., Any]) -> str:
    """Return the slot and the part's name, such as "surrogate clip"."""
    function = getattr(part, "func", part)
    return f"{slot} {getattr(function, '__name__', type(function).__name__)}"


def wrong_task(index: Any, num_tasks: int) -> str:
    """Say what a sampler has returned in place of the index of one of `num_tasks` tasks; "" if it is one."""
    is_whole = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
    if is_whole and 0 <= index < num_tasks:
        return ""
    expected = f"0 to history.num_tasks - 1, which is {num_tasks - 1}"
    return f"returned {describe(index)}, expected the index of a task, {expected}"


def wrong_groups(groups: Any) -> str:
    """Say what a strategy has returned in place of a list of groups with at least one; "" if it is that."""
    if isinstance(groups, list) and groups and all(isinstance(one, Group) for one in groups):
        return ""
    return f"returned {describe(groups)}, expected a list with the Group of its ticket"


def wrong_decision(is_kept: Any) -> str:
    """Say what a keep part has returned in place of True or False; "" if it is one of them."""
    return "" if isinstance(is_kept, (bool, np.bool_)) else f"returned {describe(is_kept)}, expected True or False"


def describe(result: Any) -> str:
    """Say in a few words what `result` is: its type, and its shape, length or value."""
    if result is None:
        return "None"
    if hasattr(result, "shape") and hasattr(result, "dtype"):
        kind = "an array" if isinstance(result, np.ndarray) else "a tensor"
        if isinstance(result, np.generic):
            return f"the number {result}"
        return f"{kind} of shape {tuple(result.shape)} and type {str(result.dtype).removeprefix('torch.')}"
    if isinstance(result, (list, tuple)):
        return f"a {type(result).__name__} of length {len(result)}"
    if isinstance(result, (bool, int, float, str)):
        return f"{type(result).__name__} {result!r}"[:80]
    return f"a {type(result).__name__}"
