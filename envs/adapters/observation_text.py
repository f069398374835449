"""Observations of Gymnasium spaces as text, without knowledge of the game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

MAX_NUMBERS = 64  # of a Box that is written as numbers
DIGITS = 4  # significant ones of a number


def observation_text(space: spaces.Space, value: Any, labels: Sequence[str] = ()) -> str:
    """Write an observation of `space` as text.

    A Dict becomes one line per key, a Tuple one line, an array its numbers separated by spaces. With `labels`, one for
    each number, `cart position 0.02, cart velocity -0.3`. A space of another kind is written by `str`.

    Raises ValueError for an array that is too large, and for labels whose number differs from that of the numbers, and
    RuntimeError, an infrastructure fault, for None in place of a value.
    """
    if value is None:
        raise RuntimeError(f"an observation is None, where the observation space is {type(space).__name__}")
    if isinstance(space, spaces.Dict):
        return "\n".join(f"{key}: {observation_text(part, value[key])}" for key, part in space.spaces.items())
    if isinstance(space, spaces.Tuple) and not labels:
        return ", ".join(observation_text(part, item) for part, item in zip(space.spaces, value, strict=True))
    if not isinstance(space, spaces.Tuple | spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
        return str(value)
    numbers = np.ravel(np.asarray(value))
    check_size(space, labels)
    if labels:
        return ", ".join(f"{label} {_number(number)}" for label, number in zip(labels, numbers, strict=True))
    return " ".join(map(_number, numbers))


def description_text(text: Any) -> str:
    """Return as text what a function that describes observations has returned. Raises RuntimeError for None."""
    if text is None:
        raise RuntimeError("the function that describes observations returned None, which is no text")
    return str(text)


def space_legend(space: spaces.Space) -> str:
    """Say in a sentence what an observation of `space` consists of; "" for one whose text speaks for itself."""
    if isinstance(space, spaces.Discrete):
        return f"An observation is a whole number from {space.start} to {space.start + space.n - 1}."
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete | spaces.Tuple) and _size(space) > 1:
        return f"An observation consists of {_size(space)} numbers."
    return ""


def check_size(space: spaces.Space, labels: Sequence[str] = ()) -> None:
    """Raise ValueError if `observation_text` cannot write observations of `space`, or `labels` do not fit."""
    if isinstance(space, spaces.Dict):
        if labels:
            raise ValueError("labels name the numbers of one array; the observation has several parts: use describe")
        for part in space.spaces.values():
            check_size(part)
        return
    size = _size(space)
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete) and size > MAX_NUMBERS:
        raise ValueError(
            f"an observation of {size} numbers is no text (at most {MAX_NUMBERS}); "
            "name a function that describes it, as in --env-arg describe=module:function"
        )
    if isinstance(space, spaces.Tuple) and not labels:
        for part in space.spaces:
            check_size(part)
    if labels and len(labels) != size:
        raise ValueError(f"{len(labels)} labels for an observation of {size} numbers")


def _size(space: spaces.Space) -> int:
    if isinstance(space, spaces.Tuple):
        return len(space.spaces)
    return int(np.prod(space.shape)) if space.shape is not None else 1


def _number(value: Any) -> str:
    return f"{value:.{DIGITS}g}" if isinstance(value, float | np.floating) else str(int(value))
