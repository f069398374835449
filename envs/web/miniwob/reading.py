"""What the scripts that solve pages of MiniWoB++ read: the goal and the page as the policy sees them, no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from envs.web.page import Element, Row, Snapshot, Text

Call = tuple[str, dict[str, Any]]
Calls = Iterator[Call]


class Shown(Protocol):
    """An environment in an episode."""

    site: Any
    snapshot: Snapshot


class Reading:
    """The goal and the page as they are when they are asked for.

    Args:
        env: The environment.
    """

    def __init__(self, env: Shown) -> None:
        self._env = env

    @property
    def goal(self) -> str:
        """What the page asks for."""
        return self._env.site.goal

    @property
    def quotes(self) -> list[str]:
        """The texts in double quotes of the goal."""
        return re.findall(r'"([^"]*)"', self.goal)

    @property
    def nodes(self) -> list[Text | Element]:
        """Texts and elements in order, those of tables too; the goal, with which a page begins, is left out."""
        nodes: list[Text | Element] = []
        for node in self._env.snapshot.nodes:
            nodes += [part for cell in node.cells for part in cell] if isinstance(node, Row) else [node]
        return [node for node in nodes if not (isinstance(node, Text) and node.content == self.goal)]

    @property
    def texts(self) -> list[str]:
        """The texts of the page."""
        return [node.content for node in self.nodes if isinstance(node, Text)]

    def all(self, role: str = "") -> list[Element]:
        """Return the elements with a role."""
        return [each for each in self._env.snapshot.elements() if role in ("", each.role)]

    def find(self, name: str, role: str = "", place: int = 0) -> Element:
        """Return the element with this name, the one at `place` if several have it. Raises LookupError."""
        same = [each for each in self.all(role) if each.name == name]
        if len(same) <= place:
            raise LookupError(f"no {role or 'element'} {name!r} is shown for {self.goal!r}")
        return same[place]

    def has(self, name: str, role: str = "") -> bool:
        """Return whether an element has this name."""
        return any(each.name == name for each in self.all(role))

    def after(self, text: str, name: str) -> Element:
        """Return the first element with this name below a text."""
        is_below = False
        for node in self.nodes:
            if isinstance(node, Text):
                is_below = is_below or text in node.content.split() or node.content == text
            elif is_below and node.name == name:
                return node
        raise LookupError(f"no {name!r} below {text!r}")


def click(element: Element) -> Call:
    """Return the call that clicks an element."""
    return "click", {"element": element.index}


def write(element: Element, text: str) -> Call:
    """Return the call that types into a field."""
    return "type", {"element": element.index, "text": text}


def choose(element: Element, option: str) -> Call:
    """Return the call that chooses an option."""
    return "select", {"element": element.index, "option": option}


def press(key: str) -> Call:
    """Return the call that presses a key."""
    return "press", {"key": key}
