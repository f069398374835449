"""Read a page into a snapshot by the rules of `envs.web.page`."""

from __future__ import annotations

import re
from collections.abc import Set

from envs.web.dom.fields import CHECK_TYPES, Fields, is_disabled, option_text, options_of
from envs.web.dom.tree import BLOCKS, Node, Tree, input_type
from envs.web.page import Element, Row, Text

HEADINGS = {f"h{level}": level for level in range(1, 7)}
WIDGET_ROLES = frozenset(
    "button link checkbox radio switch tab menuitem option slider textbox searchbox combobox".split()  # noqa: SIM905
)
_NEVER_SHOWN = frozenset("head script style template noscript svg title datalist".split())  # noqa: SIM905
_INPUT_ROLES = {
    "checkbox": "checkbox",
    "radio": "radio",
    "range": "slider",
    "number": "spinbutton",
    "search": "searchbox",
    **dict.fromkeys(("submit", "button", "reset", "image", "file"), "button"),
}
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_FIELD_TAGS = frozenset(("input", "select", "textarea"))
_HELD_TAGS = _FIELD_TAGS | {"button"}


def read(
    tree: Tree, fields: Fields, open_nodes: Set[Node], focus: Node | None
) -> tuple[tuple[Text | Element | Row, ...], list[Node]]:
    """Return the nodes of a page's snapshot, and for each element in it the node of the tree.

    Args:
        tree: The page.
        fields: What its fields hold.
        open_nodes: The `details` and `dialog` elements that are open.
        focus: The active element.
    """
    reader = _Reader(tree, fields, open_nodes, focus)
    reader.read_children(tree.root)
    reader.end_run()
    return tuple(reader.nodes), reader.sources


def is_interactive(node: Node) -> bool:
    """Whether a policy can act on the element."""
    if node.tag in ("button", "select", "textarea", "summary"):
        return True
    if node.tag == "input":
        return input_type(node) != "hidden"
    attrs = node.attrs
    if node.tag == "a" and "href" in attrs:
        return True
    if "role" in attrs or "onclick" in attrs or "tabindex" in attrs or "contenteditable" in attrs:
        is_editable = attrs.get("contenteditable", "false").lower() in ("", "true")
        return (
            attrs.get("role") in WIDGET_ROLES
            or "onclick" in attrs
            or is_editable
            or attrs.get("tabindex", "-1").strip().isdigit()
        )
    return False


def role_of(node: Node) -> str:
    """Return the role of an interactive element."""
    if role := node.attrs.get("role", "").strip():
        return role
    if node.tag == "input":
        return _INPUT_ROLES.get(input_type(node), "textbox")
    if node.tag == "a" and "href" in node.attrs:
        return "link"
    if node.tag in ("button", "summary"):
        return "button"
    if node.tag == "select":
        return "listbox" if "multiple" in node.attrs else "combobox"
    is_editable = node.attrs.get("contenteditable", "false").lower() in ("", "true")
    return "textbox" if node.tag == "textarea" or is_editable else "generic"


def is_hidden(node: Node) -> bool:
    """Whether an element is not rendered, whatever it is in; closed `details` and `dialog` aside."""
    if node.tag in _NEVER_SHOWN:
        return True
    attrs = node.attrs
    if not attrs:
        return False
    if "hidden" in attrs or attrs.get("aria-hidden") == "true":
        return True
    return "style" in attrs and _HIDING_STYLE.search(attrs["style"]) is not None


def text_of(node: Node, skip: Set[str] = frozenset()) -> str:
    """Return the text that an element shows, white space collapsed, without elements whose tag is in `skip`."""
    pieces: list[str] = []
    _collect(node, skip, pieces)
    return " ".join("".join(pieces).split())


def name_of(node: Node, tree: Tree) -> str:
    """Return the accessible name of an interactive element."""
    attrs = node.attrs
    if name := " ".join(attrs.get("aria-label", "").split()):
        return name
    if "aria-labelledby" in attrs:
        parts = [tree.by_id[each] for each in attrs["aria-labelledby"].split() if each in tree.by_id]
        if name := " ".join(filter(None, map(text_of, parts))):
            return name
    labels = tree.labels.get(node, ())
    if name := " ".join(filter(None, (text_of(label, _HELD_TAGS) for label in labels))):
        return name
    if node.tag not in _FIELD_TAGS and (name := text_of(node)):
        return name
    if node.tag == "input" and input_type(node) in ("submit", "button", "reset"):
        if name := " ".join(attrs.get("value", "").split()):
            return name
        if input_type(node) != "button":
            return input_type(node).capitalize()
    return next((name for key in ("alt", "placeholder", "title") if (name := " ".join(attrs.get(key, "").split()))), "")


def _collect(node: Node, skip: Set[str], pieces: list[str]) -> None:
    for child in node.children:
        if isinstance(child, str):
            pieces.append(child)
        elif child.tag not in skip and not is_hidden(child):
            is_block = child.tag in BLOCKS or child.tag == "br"
            if is_block:
                pieces.append(" ")
            if child.tag == "img":
                pieces.append(child.attrs.get("alt", ""))
            elif child.tag not in ("select", "textarea"):
                _collect(child, skip, pieces)
            if is_block:
                pieces.append(" ")


class _Reader:
    """Walks a tree and collects texts, elements and rows."""

    def __init__(self, tree: Tree, fields: Fields, open_nodes: Set[Node], focus: Node | None) -> None:
        self.nodes: list[Text | Element | Row] = []
        self.sources: list[Node] = []
        self._tree, self._fields, self._open, self._focus = tree, fields, open_nodes, focus
        self._run: list[str] = []
        self._level = 0
        self._is_mute = False
        self._cell: list[Text | Element] | None = None  # of the row that is being read

    def read_children(self, node: Node) -> None:
        """Read what is in an element."""
        for child in node.children:
            if isinstance(child, str):
                if not self._is_mute:
                    self._run.append(child)
            else:
                self._read(child)

    def end_run(self) -> None:
        """Emit the run of text so far."""
        if self._run:
            content = " ".join("".join(self._run).split())
            self._run.clear()
            if content:
                self._emit(Text(content, self._level))

    def _emit(self, part: Text | Element) -> None:
        (self.nodes if self._cell is None else self._cell).append(part)

    def _read(self, node: Node) -> None:
        tag = node.tag
        if is_hidden(node) or (tag == "dialog" and node not in self._open):
            return
        if is_interactive(node):
            self.end_run()
            self._emit(self._element(node))
            return
        if tag in ("tr", "br"):
            self.end_run()
            if tag == "tr" and self._cell is None:
                self._read_row(node)
            elif tag == "tr":
                self.read_children(node)
                self.end_run()
            return
        if tag == "label":
            self._read_label(node)
            return
        if tag == "details" and node not in self._open:
            summary = next((c for c in node.children if isinstance(c, Node) and c.tag == "summary"), None)
            self.end_run()
            if summary is not None:
                self._read(summary)
            return
        if tag == "img":
            self._run.append(node.attrs.get("alt", ""))
            return
        if tag not in BLOCKS:
            self.read_children(node)
            return
        self.end_run()
        level, self._level = self._level, HEADINGS.get(tag, self._level)
        self.read_children(node)
        self.end_run()
        self._level = level

    def _read_label(self, node: Node) -> None:
        """Read the fields in a label; its text too, unless it names a field."""
        was_mute = self._is_mute
        if any(node in labels for labels in self._tree.labels.values()):
            self.end_run()
            self._is_mute = True
        self.read_children(node)
        self._is_mute = was_mute

    def _read_row(self, node: Node) -> None:
        cells, is_header = [], True
        for child in node.children:
            if isinstance(child, Node) and child.tag in ("td", "th") and not is_hidden(child):
                self._cell = []
                self.read_children(child)
                self.end_run()
                cells.append(tuple(self._cell))
                is_header &= child.tag == "th"
        self._cell = None
        if any(cells):
            self.nodes.append(Row(tuple(cells), is_header))

    def _element(self, node: Node) -> Element:
        self.sources.append(node)
        options: tuple[str, ...] = ()
        value = ""
        if node.tag == "select":
            options = tuple(map(option_text, options_of(node)))
            choice = self._fields.choice(node)
            value = "" if choice is None else option_text(choice)
        elif node.tag in ("input", "textarea") and role_of(node) not in ("button", "checkbox", "radio"):
            value = self._fields.value(node)
            if node.tag == "input" and input_type(node) == "password":
                value = "\u2022" * len(value)
        name = name_of(node, self._tree)
        return Element(len(self.sources), role_of(node), name, value, self._states(node), options)

    def _states(self, node: Node) -> tuple[str, ...]:
        attrs, states = node.attrs, []
        if node.tag == "input" and input_type(node) in CHECK_TYPES:
            is_checked = self._fields.is_checked(node)
        else:
            marks = (attrs.get(f"aria-{name}", "false") for name in ("checked", "selected", "current"))
            is_checked = any(mark not in ("false", "") for mark in marks)
        if is_checked:
            states.append("checked")
        if attrs.get("aria-disabled") == "true" or (node.tag in _HELD_TAGS and is_disabled(node)):
            states.append("disabled")
        is_open = node.tag == "summary" and node.parent is not None and node.parent in self._open
        if is_open or attrs.get("aria-expanded") == "true":
            states.append("expanded")
        if node is self._focus:
            states.append("focused")
        if "required" in attrs or attrs.get("aria-required") == "true":
            states.append("required")
        is_judged = node in self._fields.validity_shown and not self._fields.is_valid(node)
        if is_judged or attrs.get("aria-invalid") == "true":
            states.append("invalid")
        return tuple(states)
