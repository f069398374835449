"""What the browser's script reads of a page, as a snapshot, and what it refuses, as the policy is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.web.page import Element, PageError, Row, Snapshot, Text

_EXAMPLES = {"date": "2031-05-20", "month": "2031-05", "time": "09:30", "color": "#ff8800"}


def parse_snapshot(data: Mapping[str, Any], url: str, tabs: tuple[str, ...], tab: int) -> Snapshot:
    """Return the snapshot of what `walk.js` has read; elements are numbered in order.

    Args:
        data: Title, nodes and how far the page goes beyond the viewport.
        url: The page's address without the origin.
        tabs: The titles of all tabs, if there are several.
        tab: The place of the one that is shown.
    """
    count = 0

    def part(item: Mapping[str, Any]) -> Text | Element:
        nonlocal count
        if "t" in item:
            return Text(item["t"], item["l"])
        count += 1
        x, y, width, height = map(float, item["b"])
        options = tuple(item.get("o", ()))
        return Element(count, item["r"], item["n"], item.get("v", ""), tuple(item["s"]), options, (x, y, width, height))

    def cells(rows: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[tuple[Text | Element, ...], ...]:
        return tuple(tuple(part(item) for item in cell) for cell in rows)

    nodes = tuple(Row(cells(item["c"]), item["h"]) if "c" in item else part(item) for item in data["nodes"])
    return Snapshot(url, data["title"], nodes, float(data["above"]), float(data["below"]), tabs, tab)


def refusal(index: int, result: Mapping[str, Any], wish: str = "") -> PageError:
    """Return the error for an action that `walk.js` has refused.

    Args:
        index: The element's number.
        result: What the script returned.
        wish: The text or option that was asked for.
    """
    reason = result["error"]
    if reason == "covered":
        return PageError(f"element {index} cannot be clicked: {result['by']!r} is in front of it")
    if reason == "moved":
        by = f"; {result['by']!r} is there now" if result["by"] else ""
        return PageError(f"element {index} moved away from the pointer and was not clicked{by}")
    if reason == "value":
        return PageError(_value_refusal(result, wish))
    if reason == "no option":
        return PageError(f"there is no option {wish[:60]!r}; the options are {'; '.join(result['texts'])[:600]}")
    texts = {
        "changed": f"element {index} has changed since the page was shown; look at it again",
        "gone": f"element {index} is no longer on the page; look at it again",
        "disabled": f"element {index} is disabled",
        "no area": f"element {index} has no area that could be clicked",
        "no text": f"element {index} is a {result.get('role')}, which takes no text",
        "readonly": f"element {index} cannot be changed",
        "no options": f"element {index} is a {result.get('role')}, which has no options",
        "option disabled": f"the option {wish!r} cannot be chosen",
    }
    return PageError(texts[reason])


def _value_refusal(result: Mapping[str, Any], wish: str) -> str:
    kind = result["type"]
    if kind == "range":
        bounds = f"{result['min'] or 0} to {result['max'] or 100} in steps of {result['step'] or 1}"
        return f"this slider goes from {bounds}; it cannot be set to {wish[:40]!r}"
    if kind in _EXAMPLES:
        return f"this field takes a {kind} such as {_EXAMPLES[kind]}, not {wish[:40]!r}"
    return (
        f"this field takes a number, not {wish[:40]!r}" if kind == "number" else f"this field cannot hold {wish[:40]!r}"
    )
