"""HTML as a tree. Trees are shared between pages with the same text, so nothing may change one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from html.parser import HTMLParser

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
BLOCKS = frozenset(
    """
    address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol optgroup option p pre section summary table tbody td tfoot
    th thead tr ul
    """.split()  # noqa: SIM905
)
_CELLS = frozenset(("td", "th"))
_CLOSED_BY = {  # what is open and ends where such an element begins
    "li": frozenset(("li",)),
    "option": frozenset(("option",)),
    "optgroup": frozenset(("option", "optgroup")),
    "tr": _CELLS | {"tr"},
    "td": _CELLS,
    "th": _CELLS,
    "tbody": _CELLS | {"tr", "thead", "tbody"},
    "tfoot": _CELLS | {"tr", "thead", "tbody"},
    "dt": frozenset(("dt", "dd")),
    "dd": frozenset(("dt", "dd")),
}
_ENDS_PARAGRAPH = BLOCKS - {
    "body",
    "html",
    "option",
    "optgroup",
    "td",
    "th",
    "tr",
    "tbody",
    "thead",
    "tfoot",
    "caption",
}
CACHED_TREES = 512


class Node:
    """An element: its tag, its attributes, and the elements and texts in it."""

    __slots__ = ("attrs", "children", "parent", "tag")

    def __init__(self, tag: str, attrs: dict[str, str], parent: Node | None) -> None:
        self.tag, self.attrs, self.parent = tag, attrs, parent
        self.children: list[Node | str] = []

    def walk(self) -> Iterator[Node]:
        """Yield the elements in it, in order of the document."""
        for child in self.children:
            if isinstance(child, Node):
                yield child
                yield from child.walk()

    def ancestor(self, tag: str) -> Node | None:
        """Return the nearest element with this tag that it is in; None if there is none."""
        node = self.parent
        while node is not None and node.tag != tag:
            node = node.parent
        return node


class Tree:
    """A page: its root, its title, and its elements by id."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.elements = tuple(root.walk())
        self.by_id: dict[str, Node] = {}
        self.labels: dict[Node, list[Node]] = {}
        for node in self.elements:
            if "id" in node.attrs:
                self.by_id.setdefault(node.attrs["id"], node)
        title = next((node for node in self.elements if node.tag == "title"), None)
        self.title = " ".join("".join(c for c in title.children if isinstance(c, str)).split()) if title else ""
        for label in (node for node in self.elements if node.tag == "label"):
            target = label.attrs.get("for")
            field = self.by_id.get(target) if target is not None else next(filter(is_field, label.walk()), None)
            if field is not None and is_field(field):
                self.labels.setdefault(field, []).append(label)


def is_field(node: Node) -> bool:
    """Whether a label can name the element."""
    return node.tag in ("button", "select", "textarea") or (node.tag == "input" and input_type(node) != "hidden")


def input_type(node: Node) -> str:
    """Return the type of an `input`, in lower case; "text" where it has none."""
    return node.attrs.get("type", "text").lower() or "text"


@lru_cache(CACHED_TREES)
def parse(html: str) -> Tree:
    """Parse a page. End tags that HTML lets one leave out may be left out; anything can be parsed."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    return Tree(parser.root)


class _Parser(HTMLParser):
    """Builds the tree of what it is fed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self._open = Node("#root", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        closing = _CLOSED_BY.get(tag, frozenset(("p",)) if tag in _ENDS_PARAGRAPH else frozenset())
        while self._open.tag in closing and self._open.parent is not None:
            self._open = self._open.parent
        node = Node(tag, {key: value or "" for key, value in reversed(attrs)}, self._open)
        self._open.children.append(node)
        if tag not in VOID:
            self._open = node

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # a slash ends nothing in HTML
        if tag not in VOID and tag in ("path", "rect", "circle", "line", "polygon", "polyline", "ellipse", "use"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        node: Node | None = self._open
        while node is not None and node.tag != tag:
            node = node.parent
        if node is not None and node.parent is not None:
            self._open = node.parent

    def handle_data(self, data: str) -> None:
        self._open.children.append(data)
