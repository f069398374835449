"""Compare function calls with a gold answer by the rule of the Berkeley Function-Calling Leaderboard.

The rule is that of `ast_checker.py` of the package bfcl-eval (Patil et al. 2025, ICML), for calls that are JSON. A gold
answer maps each argument to a list of right values, where `""` says that the argument may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_NESTED = ("array", "tuple")
_IGNORED = re.compile(r"[ ,./\-_*^]")
Call = tuple[str, Mapping[str, Any]]  # a function's name and its arguments
Gold = Mapping[str, Mapping[str, list[Any]]]  # one function's name, and the right values of its arguments


def first_fault(calls: Sequence[Call], gold: Sequence[Gold], functions: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wrong with the calls of a reply, "" if they are right.

    Args:
        calls: The calls, whose order does not matter.
        gold: One entry for each call that is expected.
        functions: The functions as the files describe them.
    """
    if len(calls) != len(gold):
        return f"{len(calls)} calls, not {len(gold)}"
    left = list(calls)
    for answer in gold:
        ((name, values),) = answer.items()
        function = next(each for each in functions if each["name"] == name)
        faults = [_call_fault(call, function, values) for call in left]
        if "" not in faults:
            return faults[0]
        del left[faults.index("")]
    return ""


def _call_fault(call: Call, function: Mapping[str, Any], gold: Mapping[str, list[Any]]) -> str:
    name, arguments = call
    if name != function["name"]:
        return f"function {name[:60]!r}, not {function['name']!r}"
    properties = function["parameters"]["properties"]
    for key in function["parameters"].get("required", ()):
        if key not in arguments:
            return f"no argument {key!r}"
    for key, value in arguments.items():
        if key not in properties or key not in gold:
            return f"unexpected argument {key[:60]!r}"
        if not _is_right(value, properties[key], gold[key]):
            return f"argument {key!r} is wrong"
    missing = [key for key, alternatives in gold.items() if key not in arguments and "" not in alternatives]
    return f"no argument {missing[0]!r}" if missing else ""


def _is_right(value: Any, schema: Mapping[str, Any], alternatives: list[Any]) -> bool:
    kind = schema["type"]
    expected = _TYPES[kind]
    items = _TYPES[schema["items"]["type"]] if kind in _NESTED else None
    if expected is float and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            return False
    has_type, is_variable = _check_type(value, alternatives, expected, items)
    if not has_type:
        return False
    if not is_variable:
        if expected is dict:
            return _is_right_dict(value, alternatives)
        if expected is list and items is dict:
            return _is_right_list_of_dicts(value, alternatives)
        if expected is str:
            return _normal(value) in [_normal(each) for each in alternatives if isinstance(each, str)]
        if expected is list:
            normal = [_normal(each) for each in value]
            return any([_normal(each) for each in right] == normal for right in alternatives if isinstance(right, list))
    return value in alternatives


def _check_type(value: Any, alternatives: Any, expected: type, items: type | None) -> tuple[bool, bool]:
    """Whether a value has the declared type or that of the gold values, and whether those are of another type.

    Gold values of another type than the declared one stand for variables; the official rule compares them as they are.
    """
    gold_type = next((type(each) for each in alternatives if each != ""), None)
    is_variable = gold_type is not None and gold_type is not expected
    if type(value) is expected:
        if items is None:
            return True, is_variable
        elements: Any = value
        for right in alternatives:
            if not isinstance(right, list) or all(_check_type(each, right, items, None)[0] for each in elements):
                return True, is_variable
        return False, False
    return gold_type is not None and type(value) is gold_type, True


def _is_right_dict(value: Mapping[str, Any], alternatives: Sequence[Any]) -> bool:
    return any(_fits(value, right) for right in alternatives if isinstance(right, Mapping))


def _fits(value: Any, right: Mapping[str, list[Any]]) -> bool:
    if not isinstance(value, Mapping):
        return False
    for key, item in value.items():
        if key not in right or _normal(item) not in [_normal(each) for each in right[key]]:
            return False
    return all(key in value or "" in alternatives for key, alternatives in right.items())


def _is_right_list_of_dicts(value: Sequence[Any], alternatives: Sequence[Any]) -> bool:
    return any(
        len(right) == len(value) and all(_fits(each, gold) for each, gold in zip(value, right, strict=True))
        for right in alternatives
        if isinstance(right, list)
    )


def _normal(value: Any) -> Any:
    """A text without case, blanks and the signs `,./-_*^`, with double quotes; other values as they are."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value
