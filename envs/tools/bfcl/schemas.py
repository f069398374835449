"""Functions of the BFCL files as OpenAI function schemas, and a gold answer as calls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def offered_name(name: str) -> str:
    """The name under which a function is offered: OpenAI's API takes neither dots nor more than 64 characters."""
    return _NO_NAME.sub("_", name)[:64]


def function_schemas(functions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the OpenAI schemas of functions whose types have Python's names: `dict`, `float`, `tuple`, `any`."""
    return [
        {
            "type": "function",
            "function": {
                "name": offered_name(function["name"]),
                "description": function.get("description", ""),
                "parameters": _json_schema(function["parameters"]),
            },
        }
        for function in functions
    ]


def gold_calls(gold: Sequence[Mapping[str, Any]], functions: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict]]:
    """Return calls that fit a gold answer, under the names that are offered: the first right value of each argument.

    Arguments that the function does not declare are left out; gold answers name some that may be left out.
    """
    parameters = {each["name"]: each["parameters"] for each in functions}
    calls = []
    for answer in gold:
        ((name, values),) = answer.items()
        arguments = {
            key: _first(alternatives)
            for key, alternatives in values.items()
            if key in parameters[name]["properties"]
            if key in parameters[name].get("required", ()) or any(each != "" for each in alternatives)
        }
        calls.append((offered_name(name), arguments))
    return calls


def _first(alternatives: Sequence[Any]) -> Any:
    value = next((each for each in alternatives if each != ""), "")
    if isinstance(value, Mapping):
        return _first_dict(value)
    if isinstance(value, list):
        return [_first_dict(each) if isinstance(each, Mapping) else each for each in value]
    return value


def _first_dict(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _first(each) for key, each in value.items() if any(option != "" for option in each)}


def _json_schema(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        copy = {key: _json_schema(value) for key, value in schema.items()}
        kind = copy.get("type")
        if kind == "any":
            del copy["type"]
        elif isinstance(kind, str):
            copy["type"] = _JSON_TYPES.get(kind, kind)
        return copy
    return [_json_schema(each) for each in schema] if isinstance(schema, list) else schema
