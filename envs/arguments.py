"""Constructor arguments from the words of a command line."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from envs.suggestions import unknown

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def arguments(words: Iterable[str], entry: Callable[..., Any]) -> dict[str, Any]:
    """Turn `["level=2", ...]` into arguments of `entry`, by its annotations and, where it has none, its defaults.

    Raises ValueError, one line, for a word without `=`, an unknown key (with the nearest) or a value of a wrong type.
    """
    known = parameters(entry)
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise ValueError(f"{word!r} is not of the form key=value")
        if known is not None and key not in known:
            raise ValueError(unknown("argument", key, known, of=getattr(entry, "__name__", str(entry))))
        try:
            values[key] = converted(value, (known or {}).get(key, Any))
        except ValueError as error:
            raise ValueError(f"{key}={value}: {error}") from None
    return values


def parameters(entry: Callable[..., Any]) -> dict[str, Any] | None:
    """Name and type of each keyword argument of a class or function; None if it takes any.

    A class whose `__init__` has `**kwargs` is taken to pass them to the next class in line.
    """
    is_class = isinstance(entry, type)
    line = inspect.getmro(entry) if is_class else ()  # type: ignore[arg-type]
    constructors = [vars(cls)["__init__"] for cls in line if "__init__" in vars(cls)] or [entry]
    found: dict[str, Any] = {}
    for constructor in constructors:
        signature = inspect.signature(constructor)
        hints = _hints(constructor)
        for name, parameter in list(signature.parameters.items())[is_class:]:  # past self
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                found.setdefault(name, hints.get(name, _type_of(parameter.default)))
        if all(parameter.kind != parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
            return found
    return None


def required(entry: Callable[..., Any]) -> set[str]:
    """The arguments of a class or function that have no default."""
    asked = inspect.signature(entry).parameters.values()
    collecting = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {one.name for one in asked if one.default is one.empty and one.kind not in collecting}


def converted(value: str, wanted: Any) -> Any:
    """`value` as the annotation `wanted` has it. Raises ValueError that says what was wanted."""
    origin, options = get_origin(wanted), get_args(wanted)
    if wanted is Any or wanted is inspect.Parameter.empty:
        return _literal(value)
    if origin in (Union, types.UnionType):
        return _first(value, options)
    if origin is Literal:
        for option in options:
            if str(option) == value:
                return option
        raise ValueError(f"must be one of {', '.join(map(str, options))}")
    if wanted in (None, type(None)):
        if value.lower() in ("none", "null"):
            return None
        raise ValueError("must be none")
    if wanted is bool:
        if value.lower() in TRUE + FALSE:
            return value.lower() in TRUE
        raise ValueError("must be true or false")
    if wanted in (int, float, str, Path):
        try:
            return wanted(value)
        except ValueError:
            raise ValueError(f"must be {'an int' if wanted is int else 'a float'}") from None
    return _literal(value)


def _first(value: str, options: Iterable[Any]) -> Any:
    ordered = sorted(options, key=lambda option: option is str)  # every word is a str, so it is asked last
    for option in ordered:
        try:
            return converted(value, option)
        except ValueError:
            continue
    names = " or ".join(getattr(option, "__name__", str(option)).replace("NoneType", "none") for option in ordered)
    raise ValueError(f"must be {names}")


def _literal(value: str) -> Any:
    """JSON where it is JSON, else the word itself."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _type_of(default: Any) -> Any:
    return Any if default is None or default is inspect.Parameter.empty else type(default)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # a name that only type checkers import
        return {}
