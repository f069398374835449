"""tau2's evaluation criteria: which reference actions were taken, what the customer was told, and the product of both.

Source: tau2-bench (Barres et al. 2025, arXiv:2506.07982), whose evaluators compare tool calls and search messages so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

PARTS = {"DB": "db", "COMMUNICATE": "communicate", "ACTION": "action"}  # bases that need no judge


def is_action(reference: Mapping[str, Any], name: str, arguments: Any) -> bool:
    """Whether a call is a reference action.

    `compare_args` of the reference names the arguments that must be equal: all of them if it is None or absent; none,
    so that the name alone counts, if it is empty.
    """
    if reference["name"] != name or not isinstance(arguments, Mapping):
        return False
    expected, compared = reference["arguments"], reference.get("compare_args")
    if compared is None:
        return dict(arguments) == expected
    return all(arguments.get(key) == expected.get(key) for key in compared)


def facts_in(text: str, facts: Iterable[str]) -> list[str]:
    """Return those of the `facts` that a message tells: they occur in it, without regard to case and commas."""
    text = text.lower().replace(",", "")
    return [fact for fact in facts if fact.lower().replace(",", "") in text]


def reward_of(parts: Mapping[str, float], basis: Sequence[str]) -> float:
    """Return the product of the parts that the `basis` names. Bases that need a judge are left out."""
    return float(prod(parts[PARTS[name]] for name in basis if name in PARTS))
