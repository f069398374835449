"""Snapshots as text: elements with their numbers, in parts of a bounded length; no text of a page can pass for one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from envs.web.page import Element, Row, Snapshot, Text

MAX_NAME, MAX_TEXT, MAX_OPTIONS = 160, 1500, 60
LETTERS = {  # of roles, in short style
    "button": "b",
    "link": "l",
    "textbox": "t",
    "searchbox": "t",
    "spinbutton": "n",
    "slider": "n",
    "checkbox": "c",
    "radio": "r",
    "combobox": "s",
}
_MARKS = re.compile(r"[\[\]|\\]")


class View:
    """A snapshot as the policy reads it.

    Args:
        snapshot: The page.
        is_short: Whether it is written in few characters.
        max_chars: Characters of a part, about; a page with more has several parts.
    """

    def __init__(self, snapshot: Snapshot, *, is_short: bool, max_chars: int) -> None:
        self.snapshot = snapshot
        self._write = _short_element if is_short else _full_element
        self._is_short = is_short
        self._parts: list[list[str]] = [[]]
        self._part_of: dict[int, int] = {}  # of elements, by index
        length = 0
        for node in snapshot.nodes:
            line = self._line(node)
            if length and length + len(line) > max_chars:
                self._parts.append([])
                length = 0
            self._parts[-1].append(line)
            length += len(line) + 1
            for element in _elements_of(node):
                self._part_of[element.index] = len(self._parts) - 1

    @property
    def parts(self) -> int:
        """The number of parts, 1 or more."""
        return len(self._parts)

    def part_of(self, index: int) -> int:
        """Return the part that shows an element, from 0."""
        return self._part_of[index]

    def text(self, part: int) -> str:
        """Return one part below a line that says which page it is of."""
        head = self._head(part)
        return "\n".join([*([head] if head else []), *self._parts[part]])

    def _head(self, part: int) -> str:
        page = self.snapshot
        if self._is_short:  # its heading says which page it is
            tabs = f"tab {page.tab} of {len(page.tabs)} " if page.tabs else ""
            return tabs + (f"part {part + 1} of {self.parts}" if self.parts > 1 else "")
        where = f" (part {part + 1} of {self.parts}; scroll for the others)" if self.parts > 1 else ""
        tabs = ""
        if page.tabs:
            titles = ", ".join(f"{place} {_quote(each)}" for place, each in enumerate(page.tabs))
            tabs = f"Open tabs: {titles}; tab {page.tab} is shown.\n"
        return f"{tabs}Page {_quote(page.title)} at {page.url[:MAX_NAME]}{where}:"

    def _line(self, node: Text | Element | Row) -> str:
        if isinstance(node, Row):
            cells = [" ".join(map(self._part, cell)) for cell in node.cells]
            return " | ".join(cells) if self._is_short else f"| {' | '.join(cells)} |"
        if isinstance(node, Text) and node.level and not self._is_short:
            return f"{'#' * node.level} {_escape(node.content)[:MAX_TEXT]}"
        return self._part(node)

    def _part(self, node: Text | Element) -> str:
        if isinstance(node, Text):
            return _shorten(_escape(node.content), MAX_TEXT)
        return self._write(node)


def describe(element: Element) -> str:
    """Return an element in a few words: `button "Save"`."""
    return f"{element.role} {_quote(element.name)}"


def _elements_of(node: Text | Element | Row) -> Sequence[Element]:
    parts = [part for cell in node.cells for part in cell] if isinstance(node, Row) else [node]
    return [part for part in parts if isinstance(part, Element)]


def _full_element(element: Element) -> str:
    words = [f"[{element.index}] {describe(element)}"]
    if element.value:
        words.append(f"= {_quote(element.value)}")
    if element.options:
        words.append(f"options: {'; '.join(map(_quote, element.options[:MAX_OPTIONS]))}")
    if element.states:
        words.append(f"({', '.join(element.states)})")
    return " ".join(words)


def _short_element(element: Element) -> str:
    states = set(element.states)
    mark = "+" * ("checked" in states) + "!" * ("invalid" in states) + "-" * ("disabled" in states)
    head = f"[{element.index}]{LETTERS.get(element.role, element.role)}{mark}"
    words = [head, _escape(element.name)[:MAX_NAME]]
    if element.value:
        words.append(f"={_escape(element.value)[:MAX_NAME]}")
    if element.options:
        words.append("{" + "|".join(_escape(each)[:MAX_NAME] for each in element.options[:MAX_OPTIONS]) + "}")
    return " ".join(words)


def _quote(text: str) -> str:
    return json.dumps(_shorten(text, MAX_NAME), ensure_ascii=False)


def _escape(text: str) -> str:
    r"""Put a backslash before brackets and bars, so that no text looks like an element or another cell."""
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split())) if _MARKS.search(text) else " ".join(text.split())


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
