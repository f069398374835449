"""Judge the state that an episode leaves in a site: the expected changes are there, and nothing else has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Changes = frozenset[tuple[str, str]]


def changes(before: Any, after: Any) -> Changes:
    """Return how two states of JSON values differ: the places that changed, each with its new value as JSON.

    What was removed has the value "". Equal sets of changes mean equal states, if both started from `before`.
    """
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    return frozenset(
        (place, new.get(place, "")) for place in old.keys() | new.keys() if old.get(place) != new.get(place)
    )


def partial_score(expected: Changes, actual: Changes) -> float:
    """Return the share of the expected and the actual changes that are both, from 0 to 1; 1 if there are none."""
    union = expected | actual
    return len(expected & actual) / len(union) if union else 1.0


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{place}/{json.dumps(key)}")
    elif isinstance(value, list | tuple) and value:
        for key, each in enumerate(value):
            yield from _leaves(each, f"{place}/{key}")
    else:
        yield place, json.dumps(value, sort_keys=True)
