"""Options as text: `high=0.3,low=0.1`, typed by the signature of the function that takes them."""

from __future__ import annotations

import ast
import difflib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class PartError(ValueError):
    """A part cannot work with what this run gives it."""


# Numbers with a range. A signature that uses one of these names has the range checked where text is read.
Natural = int
Count = int
NonNegative = float
Positive = float
AboveOne = float
Share = float

_NUMBERS: dict[str, tuple[type[int] | type[float], Callable[[float], bool], str]] = {
    "int": (int, lambda x: x == x, "a whole number"),
    "Natural": (int, lambda x: x >= 0, "a whole number of at least 0"),
    "Count": (int, lambda x: x >= 1, "a whole number of at least 1"),
    "float": (float, lambda x: x == x, "a number"),
    "NonNegative": (float, lambda x: x >= 0, "a number of at least 0"),
    "Positive": (float, lambda x: x > 0, "a number above 0"),
    "AboveOne": (float, lambda x: x > 1, "a number above 1"),
    "Share": (float, lambda x: 0 <= x <= 1, "a number from 0 to 1"),
}


def of(function: Callable) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a function, or all parameters of a class."""
    parameters = inspect.signature(function).parameters
    return {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY or inspect.isclass(function)
    }


def read(flag: str, function: Callable, text: str) -> dict[str, Any]:
    """The options that `text` binds. Raises `ValueError`, opened by `flag`, for a wrong key or value or one missing."""
    known, bound = of(function), {}
    for pair in filter(None, text.split(",")):
        key, _, value = pair.partition("=")
        if key not in known:
            raise ValueError(f"{flag}: no option {key!r}; it takes {', '.join(known) or 'none'}")
        bound[key] = _value(f"{flag}: {key}", known[key], value)
    for key, option in known.items():
        if option.default is option.empty and key not in bound:
            raise ValueError(f"{flag}: needs {key}=...")
    return bound


def write(bound: Mapping[str, Any]) -> str:
    """The text that `read` turns into `bound`."""
    return ",".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in bound.items())


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """`"; did you mean 'clip'?"` for the known name nearest to `name`; empty when none is near."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _value(name: str, option: inspect.Parameter, text: str) -> bool | int | float | str:
    """`text` as what the option is annotated with: `bool`, `str`, a `Literal` of strings, or a kind of number."""
    annotation = option.annotation
    kind = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    if kind == "str":
        return text
    if kind == "bool":
        return _one_of(name, text, ("true", "false")) == "true"
    if kind.startswith("Literal["):
        return _one_of(name, text, ast.literal_eval(f"({kind[8:-1]},)"))
    if kind not in _NUMBERS:
        raise ValueError(f"{name} is a {kind}, which cannot be given as text")
    number_type, fits, wanted = _NUMBERS[kind]
    try:
        number = number_type(text)
    except ValueError:
        number = math.nan
    if not fits(number):
        raise ValueError(f"{name}={text!r} is not {wanted}")
    return number


def _one_of(name: str, text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise ValueError(f"{name}={text!r} is none of {', '.join(choices)}")
    return text
