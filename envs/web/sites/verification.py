"""Judge the state that an episode leaves in a site: the expected changes are there, and nothing else has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

Changes = frozenset[tuple[str, str]]
_ABSENT = object()


def changes(before: Any, after: Any) -> Changes:
    """Return how two states of JSON values differ: the places that changed, each with its new value as JSON.

    What was removed has the value "". Equal sets of changes mean equal states, if both started from `before`.
    """
    return frozenset(_differences(before, after, ""))


def partial_score(expected: Changes, actual: Changes) -> float:
    """Return the share of the expected and the actual changes that are both, from 0 to 1; 1 if there are none."""
    union = expected | actual
    return len(expected & actual) / len(union) if union else 1.0


def _differences(before: Any, after: Any, place: str) -> Iterator[tuple[str, str]]:
    if before == after and type(before) is type(after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{place}/{json.dumps(key)}")
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=_ABSENT)):
            yield from _differences(old, new, f"{place}/{number}")
    elif after is _ABSENT:
        yield place, ""
    else:
        yield place, json.dumps(after, sort_keys=True)
