"""Values of arguments as models write them, in the types of the tool's schema where that is certain."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_INTEGER = 2**53  # up to which a JSON number is exact
_INTEGER = re.compile(r"\s{0,9}([+-]?[0-9]{1,15})(?:\.0{1,9})?\s{0,9}")


def fit_values(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """Return a JSON value with the parts that do not fit a JSON schema in the form that does, where it is certain.

    `"5"` and `5.0` become the integer 5, `"NEW"` the only choice `"new"` that it is but for case, and a text the JSON
    object that it holds. All else stays as it is.

    Args:
        value: What `json.loads` returns.
        schema: The value's schema.
        definitions: The schemas that `$ref` names.
    """
    schema = _resolved(schema, definitions)
    if branches := schema.get("anyOf"):
        return _fit_one(value, [_resolved(branch, definitions) for branch in branches], definitions)
    if isinstance(value, str):
        return _fit_text(value, schema)
    kind = schema.get("type")
    if isinstance(value, float) and kind == "integer" and value.is_integer() and abs(value) <= MAX_INTEGER:
        return int(value)
    if isinstance(value, list) and kind == "array" and isinstance(items := schema.get("items"), Mapping):
        return [fit_values(each, items, definitions) for each in value]
    if isinstance(value, dict) and kind == "object":
        rest = schema.get("additionalProperties")
        schemas = {key: schema.get("properties", {}).get(key, rest) for key in value}
        return {
            key: fit_values(each, schemas[key], definitions) if isinstance(schemas[key], Mapping) else each
            for key, each in value.items()
        }
    return value


def _fit_one(value: Any, branches: list[Mapping[str, Any]], definitions: Mapping[str, Any]) -> Any:
    """The value as the only branch takes it that takes it in another form; unchanged if any text is right."""
    if isinstance(value, str) and any(each.get("type") == "string" and not _choices(each) for each in branches):
        return value
    forms = {json.dumps(new := fit_values(value, each, definitions)): new for each in branches}
    forms.pop(json.dumps(value), None)
    return next(iter(forms.values())) if len(forms) == 1 else value


def _fit_text(text: str, schema: Mapping[str, Any]) -> Any:
    if choices := _choices(schema):
        if text in choices:
            return text
        same = [each for each in choices if isinstance(each, str) and each.casefold() == text.strip().casefold()]
        return same[0] if len(same) == 1 else text
    kind = schema.get("type")
    if kind == "integer" and (match := _INTEGER.fullmatch(text)):
        return int(match[1])
    if kind == "object" and text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value if isinstance(value, dict) else text
    return text


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return definitions.get(name, schema) if name else schema
