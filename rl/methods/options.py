"""Options as text: `high=0.3,low=0.1`, typed by the signature of the function that takes them."""

from __future__ import annotations

import ast
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from envs.suggestions import nearest


class PartError(ValueError):
    """A part cannot work with this run: its environment, its recipe or its options lack what the part reads."""


class MissingSignal(PartError):
    """A part reads a reward or a metric of a name that the environment does not give."""


# Annotations of options. A signature that uses one of these names has its range or choices checked when text is read.
Natural = int
Count = int
NonNegative = float
Positive = float
AboveOne = float
AboveZero = float
Share = float
FilePath = str  # made absolute, so that a run can be resumed from any folder; "" for none
Whiten = bool | Literal["verl"]  # whether to standardise tokens; "verl" as verl does, see `statistics.whiten`
NONE = ("none", "null")  # an option with `| None` that is None, in any case of its letters

_NUMBERS: dict[str, tuple[type[int] | type[float], Callable[[float], bool], str]] = {
    "int": (int, lambda x: x == x, "a whole number"),
    "Natural": (int, lambda x: x >= 0, "a whole number of at least 0"),
    "Count": (int, lambda x: x >= 1, "a whole number of at least 1"),
    "float": (float, lambda x: x == x, "a number"),
    "NonNegative": (float, lambda x: x >= 0, "a number of at least 0"),
    "Positive": (float, lambda x: x > 0, "a number above 0"),
    "AboveZero": (float, lambda x: 0 < x <= 1, "a number above 0, at most 1"),
    "AboveOne": (float, lambda x: x > 1, "a number above 1"),
    "Share": (float, lambda x: 0 <= x <= 1, "a number from 0 to 1"),
}
_SWITCHES: dict[str, dict[str, bool | str]] = {
    "bool": {"true": True, "false": False},
    "Whiten": {"true": True, "false": False, "verl": "verl"},
}


def of(function: Callable) -> dict[str, inspect.Parameter]:
    """The options of a part by name: the keyword-only parameters of a function, or all parameters of a class."""
    parameters = inspect.signature(function).parameters
    return {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY or inspect.isclass(function)
    }


def read(flag: str, function: Callable, text: str) -> dict[str, Any]:
    """The options of `function` that `text` binds, such as `high=0.3,low=0.1`, converted to their annotated types.

    An option that `text` leaves out is not in the result; an empty `text` binds none. The value of an option that is a
    text may hold commas, as in `rubric=short,polite,high=0.3`: it goes on up to the next word with a `=`, and a comma
    without a word after it belongs to it too. Raises `ValueError`, whose message begins with `flag`, for an unknown or
    repeated option, a wrong value, or a missing option that has no default.
    """
    options, bound = of(function), {}
    for pair in _pairs(text, options):
        key, _, value = pair.partition("=")
        if key not in options:
            is_positional = key in inspect.signature(function).parameters
            hint = f"write `*, {key}` in its signature" if is_positional else f"it takes {', '.join(options) or 'none'}"
            raise ValueError(f"{flag}: no option {key!r}; {hint}")
        if key in bound:
            raise ValueError(f"{flag}: {key}={value}: {key} is given twice; give it once")
        bound[key] = _convert(f"{flag}: {key}", options[key], value)
    for key, option in options.items():
        if option.default is option.empty and key not in bound:
            raise ValueError(f"{flag}: needs {key}=...")
    return bound


def write(bound: Mapping[str, Any], label: str = "", function: Callable | None = None) -> str:
    """Write options of `function` by name as text, such as `high=0.3,clamp=false`: the inverse of `read`.

    Raises `ValueError`, whose message begins with `label`, for a text that would not be read as one option, and where
    `function` is given for one that would be read as None.
    """
    options = of(function) if function else {}
    for key, value in bound.items():
        if mark := _unwritable(value, options.get(key)) if isinstance(value, str) else "":
            begin = f"{label}: " if label else ""
            raise ValueError(f"{begin}{key}={value!r} {mark}, so it cannot be written as an option")
    is_word = {key: value is None or isinstance(value, bool) for key, value in bound.items()}
    return ",".join(f"{key}={str(value).lower() if is_word[key] else value}" for key, value in bound.items())


def bound_by(part: Any) -> dict[str, Any]:
    """The options of a callable object of a class that differ from their defaults, by name.

    Raises `ValueError` for an object that does not keep an option under its name.
    """
    bound = {}
    for key, option in of(type(part)).items():
        if not hasattr(part, key):
            raise ValueError(f"{type(part).__name__} keeps no attribute {key!r} for its option; make it a dataclass")
        if (value := getattr(part, key)) != option.default:
            bound[key] = value
    return bound


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """`"; did you mean 'clip'?"` for the choice nearest to `name`; empty when none is near."""
    near = nearest(name, choices)
    return f"; did you mean {near!r}?" if near else ""


def files(function: Callable, bound: Mapping[str, Any]) -> list[str]:
    """Return the paths of the files that the options `bound` of a part name."""
    names = [name for name, option in of(function).items() if _kind(option.annotation)[0] == "FilePath"]
    return [str(bound[name]) for name in names if bound.get(name)]


def _pairs(text: str, options: Mapping[str, inspect.Parameter]) -> list[str]:
    """The parts `key=value` of `text`; one without a `=` belongs to the value before it, if that is a text."""
    pairs: list[str] = []
    for part in text.split(","):
        key = pairs[-1].partition("=")[0] if pairs else ""
        if "=" not in part and key in options and _is_text(options[key]):
            pairs[-1] += f",{part}"
        elif part:
            pairs.append(part)
    return pairs


def _is_text(option: inspect.Parameter) -> bool:
    annotation = type(option.default) if option.annotation is option.empty else option.annotation
    return _kind(annotation)[0] in ("str", "FilePath")


def _unwritable(value: str, option: inspect.Parameter | None) -> str:
    """What of a text `read` would take for something else; "" for nothing."""
    if ".py:" in value:
        return "holds '.py:'"
    if option is not None and _kind(option.annotation)[1] and value.lower() in NONE:
        return "means None"
    word = next((part for part in value.split(",")[1:] if "=" in part), "")
    return f"holds ',{word}'" if word else ""


def _kind(annotation: Any) -> tuple[str, bool]:
    """The annotation of an option as text, without `| None`, and whether it had that."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.removeprefix("typing.")
    if text.startswith("Optional["):
        return text[9:-1].removeprefix("typing."), True
    kind = text.removesuffix(" | None").removeprefix("None | ").removeprefix("typing.")
    return kind, text.startswith("None | ") or text.endswith(" | None")


def _convert(name: str, option: inspect.Parameter, text: str) -> bool | int | float | str | None:
    """`text` as what `option` is annotated with: `str`, a switch, a `Literal` of strings, or a kind of number.

    Without an annotation it is the type of the default. With `| None`, `none` and `null` are None, as in `--env-arg`.
    """
    annotation = option.annotation
    if annotation is option.empty:  # then the default says the type
        annotation = type(option.default)
        if option.default is option.empty or annotation not in (bool, int, float, str):
            raise ValueError(f"{name} has no type that text can be read as; annotate it, as in {option.name}: float")
    kind, is_optional = _kind(annotation)
    if is_optional and text.lower() in NONE:
        return None
    if kind == "str":
        return text
    if kind == "FilePath":
        return os.path.abspath(os.path.expanduser(text)) if text else text
    if kind in _SWITCHES:
        return _SWITCHES[kind][_check_choice(name, text, list(_SWITCHES[kind]), is_optional)]
    if kind.startswith("Literal["):
        return _check_choice(name, text, ast.literal_eval(f"({kind[8:-1]},)"), is_optional)
    if kind not in _NUMBERS:
        raise ValueError(f"{name} is a {kind}, which text cannot be read as; use int, float, bool, str or Literal")
    number_type, is_in_range, description = _NUMBERS[kind]
    try:
        number = number_type(text)
    except ValueError:
        number = math.nan
    if not is_in_range(number):
        raise ValueError(f"{name}={text!r} is not {description}{', or none' if is_optional else ''}")
    return number


def _check_choice(name: str, text: str, choices: Sequence[str], is_optional: bool) -> str:
    if text not in choices:
        raise ValueError(f"{name}={text!r} is none of {', '.join([*choices, *(['none'] * is_optional)])}")
    return text
