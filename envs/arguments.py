"""Parse `key=value` words of a command line into typed arguments of a class or function."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from envs.episodes.guide import REPLACED_ARGUMENTS
from envs.suggestions import unknown_message

NUMBERS = {"max_turns": "an int", "max_seconds": "a number"}  # arguments of every environment
NOT_TEXT: dict[Any, str] = {bool: "True or False", float: "a number"}  # by annotation
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def arguments(words: Iterable[str], entry: Callable[..., Any], flag: str = "") -> dict[str, Any]:
    """Parse `["level=2", ...]` into keyword arguments of `entry`, a class or function.

    Values are converted by the annotations of `entry`, or where it has none by the types of its defaults. Dashes in a
    key count as underscores. Raises ValueError, in one line, for a word without `=`, for an unknown key (with the
    nearest one), for a key that is given twice with different values and for a value of the wrong type; the line begins
    with `flag`, such as "--env-arg", if there is one.
    """
    prefix = f"{flag} " if flag else ""
    types_by_name = parameters(entry)
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise ValueError(f"{prefix}{word!r} is not of the form key=value")
        if types_by_name is not None and key not in types_by_name:
            name = getattr(entry, "__name__", str(entry))
            raise ValueError(unknown_argument(key, types_by_name, of=name))
        try:
            typed_value = convert(value, (types_by_name or {}).get(key, Any))
        except ValueError as error:
            raise ValueError(f"{prefix}{key}={value}: {error}") from None
        if values.setdefault(key, typed_value) != typed_value:
            raise ValueError(f"{prefix}{key}={value}: {key} is given twice with different values; give it once")
    return values


def absolute_argument(word: str) -> str:
    """Return a word `key=value` with a path in the value made absolute, so that it means the same in any folder.

    A path is the name of an existing file, perhaps with a function after it, `tasks=mine.jsonl` and
    `checker=mine.py:grade`, and the folder of a `data_root`. Other words are returned unchanged.
    """
    key, equals, value = word.partition("=")
    path, colon, name = value.rpartition(":")
    if not (colon and path.endswith(".py")):
        path, colon, name = value, "", ""
    place = Path(path).expanduser()
    is_path = (place.is_file() and bool(place.suffix)) or (key.replace("-", "_") == "data_root" and place.is_dir())
    return f"{key}{equals}{place.absolute()}{colon}{name}" if path and is_path else word


def unknown_argument(name: str, choices: Iterable[str], *, of: str) -> str:
    """Return a one-line error message for an argument `name` that is not among `choices`.

    Arguments of earlier versions, which `style` replaces, are named as such. `of` is the environment or class.
    """
    if name in REPLACED_ARGUMENTS and "style" in choices:
        return f"{of}: style replaces the argument {name!r}; use style=full (the default, in sentences) or style=short"
    return unknown_message("argument", name, choices, of=of)


def parameters(entry: Callable[..., Any]) -> dict[str, Any] | None:
    """Map each keyword argument of a class or function to its type; None if it accepts any name.

    The type is the annotation, else the type of the default, else `Any`. A class whose `__init__` has `**kwargs` is
    assumed to pass them to the next `__init__` in its MRO, or in its attribute `constructors`, a list of classes.
    """
    is_class = isinstance(entry, type)
    mro = getattr(entry, "constructors", None) or (inspect.getmro(entry) if is_class else ())  # type: ignore[arg-type]
    constructors = [vars(cls)["__init__"] for cls in mro if "__init__" in vars(cls)] or [entry]
    types_by_name: dict[str, Any] = {}
    for constructor in constructors:
        signature = inspect.signature(constructor)
        hints = _type_hints(constructor)
        for name, parameter in list(signature.parameters.items())[is_class:]:  # without self
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                types_by_name.setdefault(name, hints.get(name, _type_of(parameter.default)))
        if all(parameter.kind != parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
            return types_by_name
    return None


def check_arguments(cls: type, values: Mapping[str, Any]) -> None:
    """Check keyword arguments of a class before it is made of them.

    Raises `TypeError` for an unknown name, with the nearest one, and `ValueError` for a text in place of a float or of
    a truth value, which `"no"` would otherwise pass for.
    """
    types_by_name = _parameters_of_class(cls)
    if types_by_name is None:
        return
    for name, value in values.items():
        if name not in types_by_name:
            raise TypeError(unknown_argument(name, types_by_name, of=cls.__name__))
        annotation = _without_none(types_by_name[name])
        kind = next((text for type, text in NOT_TEXT.items() if type is annotation), NUMBERS.get(name))
        if kind and isinstance(value, str):
            raise ValueError(f"{cls.__name__}: {name}={value!r} must be {kind}, not a str")


def _without_none(annotation: Any) -> Any:
    """Return the one type of `TYPE | None`; other annotations as they are."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return options[0] if is_union and len(options) == 1 else annotation


@cache
def _parameters_of_class(cls: type) -> dict[str, Any] | None:
    return parameters(cls)


def required_parameters(entry: Callable[..., Any]) -> set[str]:
    """Return the names of the keyword arguments of a class or function that have no default."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return {
        parameter.name
        for parameter in inspect.signature(entry).parameters.values()
        if parameter.default is parameter.empty and parameter.kind not in variadic
    }


def convert(value: str, annotation: Any) -> Any:
    """Convert the text `value` to the type of an annotation, such as `int`, `Literal["a", "b"]` or `int | None`.

    For `Any`, no annotation and other types the text is read as JSON, and stays a str where it is none. Raises
    ValueError with the values that the type allows.
    """
    origin, options = get_origin(annotation), get_args(annotation)
    if annotation is Any or annotation is inspect.Parameter.empty:
        return _parse_literal(value)
    if origin in (Union, types.UnionType):
        return _convert_to_union(value, options)
    if origin is Literal:
        for option in options:
            if str(option) == value:
                return option
        raise ValueError(f"must be one of {', '.join(map(str, options))}")
    if annotation in (None, type(None)):
        if value.lower() in ("none", "null"):
            return None
        raise ValueError("must be none")
    if annotation is bool:
        if value.lower() in TRUE_WORDS + FALSE_WORDS:
            return value.lower() in TRUE_WORDS
        raise ValueError("must be true or false")
    if annotation in (int, float, str, Path):
        try:
            return annotation(value)
        except ValueError:
            raise ValueError(f"must be {'an int' if annotation is int else 'a float'}") from None
    return _parse_literal(value)


def _convert_to_union(value: str, options: Iterable[Any]) -> Any:
    str_last = sorted(options, key=lambda option: option is str)  # every word is a str, so try the others first
    for option in str_last:
        try:
            return convert(value, option)
        except ValueError:
            continue
    names = " or ".join(getattr(option, "__name__", str(option)).replace("NoneType", "none") for option in str_last)
    raise ValueError(f"must be {names}")


def _parse_literal(value: str) -> Any:
    """The value of a JSON text; any other text as it is."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _type_of(default: Any) -> Any:
    return Any if default is None or default is inspect.Parameter.empty else type(default)


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # a name that is imported for type checkers only
        return {}
