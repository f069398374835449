"""Check a value against a JSON Schema, with an error that a model can mend."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from envs.suggestions import unknown_message
from envs.types import ToolError

MAX_SHOWN = 60  # characters of a wrong value in an error message
TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
# Keyword, whether a value and its bound break it, and how the bound is told.
_BOUNDS = (
    ("minimum", lambda value, bound: value < bound, "at least {}"),
    ("maximum", lambda value, bound: value > bound, "at most {}"),
    ("exclusiveMinimum", lambda value, bound: value <= bound, "above {}"),
    ("exclusiveMaximum", lambda value, bound: value >= bound, "below {}"),
)
_LENGTHS = (
    ("minLength", "maxLength", str, "characters"),
    ("minItems", "maxItems", list, "entries"),
)


def check_value(value: Any, schema: Mapping[str, Any], name: str, place: str = "") -> None:
    """Raise ToolError, in one line, if `value` does not fit `schema`.

    Checked: type, enum, const, bounds, lengths, items, properties, required, additionalProperties, anyOf, oneOf (as
    anyOf) and allOf. `pattern`, `format` and other keywords are not.

    Args:
        value: A JSON value.
        schema: A JSON Schema without references.
        name: Of the tool, for the error.
        place: Of the value in the arguments, such as "lines.0"; "" for the arguments themselves.
    """
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_of_type(value, kind) for kind in kinds):
        raise ToolError(f"{_about(name, place)} must be of type {' or '.join(map(str, kinds))}, not {_shown(value)}")
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices is not None and not any(_is_same(value, choice) for choice in choices):
        raise ToolError(f"{_about(name, place)} must be one of {_shown(choices, 300)}, not {_shown(value)}")
    _check_size(value, schema, name, place)
    if isinstance(value, dict):
        _check_properties(value, schema, name, place)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for number, each in enumerate(value):
            check_value(each, schema["items"], name, f"{place}.{number}".lstrip("."))
    for part in schema.get("allOf", ()):
        check_value(value, part, name, place)
    if alternatives := [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        _check_alternatives(value, alternatives, name, place)


def _check_size(value: Any, schema: Mapping[str, Any], name: str, place: str) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        for keyword, is_broken, told_as in _BOUNDS:
            bound = schema.get(keyword)
            if isinstance(bound, int | float) and is_broken(value, bound):
                raise ToolError(f"{_about(name, place)} must be {told_as.format(bound)}, not {_shown(value)}")
    for least, most, kind, unit in _LENGTHS:
        if isinstance(value, kind):
            if len(value) < schema.get(least, 0):
                raise ToolError(f"{_about(name, place)} needs at least {schema[least]} {unit}")
            if most in schema and len(value) > schema[most]:
                raise ToolError(f"{_about(name, place)} takes at most {schema[most]} {unit}")


def _check_properties(value: Mapping[str, Any], schema: Mapping[str, Any], name: str, place: str) -> None:
    properties = schema.get("properties", {})
    where = f"{name}, in {place}" if place else name
    for key in schema.get("required", ()):
        if key not in value:
            raise ToolError(f"{where} needs the argument {key!r}")
    others = schema.get("additionalProperties", True)
    for key, each in value.items():
        inner = f"{place}.{key}".lstrip(".")
        if key in properties:
            check_value(each, properties[key], name, inner)
        elif others is False:
            raise ToolError(unknown_message("argument", key, properties, of=where))
        elif isinstance(others, Mapping):
            check_value(each, others, name, inner)


def _check_alternatives(value: Any, alternatives: list[Mapping[str, Any]], name: str, place: str) -> None:
    faults = []
    for alternative in alternatives:
        try:
            check_value(value, alternative, name, place)
        except ToolError as error:
            faults.append(str(error))
        else:
            return
    raise ToolError(faults[0])


def _is_of_type(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, int):
        return kind in ("integer", "number")
    if isinstance(value, float):
        return isfinite(value) and (kind == "number" or (kind == "integer" and value.is_integer()))
    kinds = {str: "string", list: "array", dict: "object", type(None): "null"}
    return kind not in TYPES or kinds[type(value)] == kind


def _is_same(value: Any, choice: Any) -> bool:
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)


def _about(name: str, place: str) -> str:
    return f"argument {place!r} of {name}" if place else f"the arguments of {name}"


def _shown(value: Any, most: int = MAX_SHOWN) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer of thousands of digits
        text = "such a large number"
    return text if len(text) <= most else f"{text[:most]}..."
