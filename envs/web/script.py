"""Steps of a script on the page that is shown: find the element that a step names, and write its call."""

from __future__ import annotations

from typing import Any

from envs.web.case import Step
from envs.web.page import Element, Row, Snapshot, Text

_ROLES = {
    "click": ("button", "link", "checkbox", "radio"),
    "type": ("textbox", "searchbox", "spinbutton", "slider"),
    "select": ("combobox", "listbox"),
}


def element_of(snapshot: Snapshot, step: Step) -> Element:
    """Return the element that a step acts on. Raises LookupError if the page shows none."""
    roles = _ROLES.get(step.act)
    for node in snapshot.nodes:
        if isinstance(node, Row):
            parts = [part for cell in node.cells for part in cell]
            if step.within and not any(_says(part, step.within) for part in parts):
                continue
        elif step.within:
            continue
        else:
            parts = [node]  # type: ignore[list-item]
        for part in parts:
            if isinstance(part, Element) and part.name == step.name and (roles is None or part.role in roles):
                return part
    place = f" in a row with {step.within!r}" if step.within else ""
    raise LookupError(f"{snapshot.title!r} ({snapshot.url}) shows no {step.name!r}{place} to {step.act}")


def call_of(step: Step, index: int | None) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of a step; `index` is that of its element."""
    arguments: dict[str, dict[str, Any]] = {
        "click": {"element": index},
        "type": {"element": index, "text": step.text},
        "select": {"element": index, "option": step.text},
        "press": {"key": step.name},
        "answer": {"text": step.text},
    }
    if step.act == "switch":
        return "switch_tab", {"tab": int(step.name)}
    if step.act == "impossible":
        return "report_impossible", {}
    return step.act, arguments.get(step.act, {})


def _says(part: Text | Element, words: str) -> bool:
    return (part.content if isinstance(part, Text) else part.name) == words
