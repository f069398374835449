"""Parse `key=value` words of a command line into typed arguments of a class or function."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from envs.episodes.guide import REPLACED_ARGUMENTS
from envs.suggestions import unknown_message

NUMBERS = {"max_turns": "an int", "max_seconds": "a number"}  # arguments of every environment
LIMITS = ("style", *NUMBERS, "render_mode")  # those of `envs.env.Env`, which a constructor passes on as **limits
NOT_TEXT: dict[Any, str] = {bool: "True or False", float: "a number"}  # by annotation
SEQUENCES: dict[Any, Callable[[Iterable[Any]], Any]] = {
    **{kind: kind for kind in (list, tuple, set, frozenset)},
    **{kind: list for kind in (Sequence, Collection, Iterable)},
}  # what a value of several items becomes
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
            raise ValueError(unknown_argument(key, types_by_name, of=name, entry=entry))
        try:
            typed_value = convert(value, (types_by_name or {}).get(key, Any))
        except ValueError as error:
            raise ValueError(f"{prefix}{key}={value}: {error}") from None
        if (first := values.setdefault(key, typed_value)) is not typed_value and first != typed_value:
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


def unknown_argument(name: str, choices: Iterable[str], *, of: str, entry: Any = None) -> str:
    """Return a one-line error message for an argument `name` that is not among `choices`.

    Arguments of earlier versions, which `style` replaces, are named as such, and those that the class `entry` should
    pass on. `of` is the environment or class.
    """
    if name in LIMITS and hasattr(entry, "max_turns"):
        fix = "let __init__ take **limits and call super().__init__(**limits)"
        return f"{of} does not take {name!r}, which every environment does; {fix}"
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
            raise TypeError(unknown_argument(name, types_by_name, of=cls.__name__, entry=cls))
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

    A sequence such as `tuple[int, ...]` is read from items with commas between, or from a JSON array; a dict from a
    JSON object; a member of an `Enum` from its name or value. For `Any`, no annotation and other types the text is read
    as JSON, and stays a str where it is none. Raises ValueError with the values that the type allows.
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
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _convert_to_member(value, annotation)
    kind = origin or annotation
    if kind in SEQUENCES:
        try:
            return SEQUENCES[kind](_convert_items(value, kind, options))
        except TypeError:  # a list in a set
            raise ValueError("items of a set must be texts, numbers or truth values") from None
    if kind in (dict, Mapping):
        items = _parse_literal(value)
        if not isinstance(items, dict):
            raise ValueError('must be a JSON object, such as {"a": 1}')
        of_keys, of_items = options or (Any, Any)
        return {_convert_item(key, of_keys): _convert_item(item, of_items) for key, item in items.items()}
    return _parse_literal(value)


def _convert_to_member(value: str, enum: type[Enum]) -> Enum:
    for name, member in enum.__members__.items():
        if value in (name, str(member.value)):
            return member
    raise ValueError(f"must be one of {', '.join(enum.__members__)}")


def _convert_items(value: str, kind: Any, options: tuple[Any, ...]) -> list[Any]:
    """The items of a sequence, each converted to its type in `options`, the arguments of the annotation."""
    items = _parse_literal(value)
    if not isinstance(items, list):
        if value.startswith(("[", "(", '"')):
            raise ValueError("must be a JSON array, or items with commas between")
        items = [item.strip() for item in value.split(",")] if value.strip() else []
        items = items if options else [_parse_literal(item) for item in items]
    if kind is not tuple or not options or options[1:] == (...,):
        types_of_items = [options[0] if options else Any] * len(items)
    elif len(items) == len(options):
        types_of_items = [*options]
    else:
        raise ValueError(f"must be {len(options)} items with commas between, not {len(items)}")
    return [_convert_item(item, type) for item, type in zip(items, types_of_items, strict=True)]


def _convert_item(item: Any, annotation: Any) -> Any:
    if annotation is Any:
        return item
    text = item if isinstance(item, str) else json.dumps(item)
    try:
        return convert(text, annotation)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None


def _convert_to_union(value: str, options: tuple[Any, ...]) -> Any:
    # Every word is a str, so others are tried first; but a text is a sequence only where it can be nothing else.
    is_array = value.startswith("[")
    last = {str: 1, **dict.fromkeys(SEQUENCES, 0 if is_array else 2)}
    ranked = sorted(options, key=lambda option: last.get(get_origin(option) or option, 0))
    errors = []
    for option in ranked:
        try:
            return convert(value, option)
        except ValueError as error:
            errors.append(str(error))
    if len(options) == 2 and type(None) in options:  # of two errors, that of the other option
        raise ValueError(f"{errors[1 - ranked.index(type(None))]}, or none")
    names = " or ".join(getattr(option, "__name__", str(option)).replace("NoneType", "none") for option in ranked)
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
