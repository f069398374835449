"""A page without a browser: what HTML does by itself, with links, forms, `details` and a history, but no scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from envs.suggestions import unknown_message
from envs.web.dom.fields import BUTTON_TYPES, CHECK_TYPES, Fields, is_disabled
from envs.web.dom.keys import press_key
from envs.web.dom.reading import read, role_of
from envs.web.dom.tree import Node, Tree, input_type, parse
from envs.web.page import PageError, Snapshot
from envs.web.site import Request, Site

MAX_REDIRECTS = 10
_SPACES = "".join(map(chr, range(33)))  # around an address
_UNREAD = re.compile("[\t\n\r]")  # wherever it stands in one
_SCHEME = re.compile("([A-Za-z][A-Za-z0-9+.-]*):")
_UNTYPED = CHECK_TYPES | BUTTON_TYPES | {"file"}


@dataclass
class Document:
    """A page as it stands: its tree, what its fields hold, what is open and where the focus is."""

    request: Request
    url: str
    tree: Tree
    fields: Fields
    open_nodes: set[Node] = field(default_factory=set)
    focus: Node | None = None
    is_edited: bool = False  # whether the focused field has changed since it got the focus


@dataclass
class Tab:
    """A tab: the addresses before the current page, and the page."""

    document: Document
    history: list[Document] = field(default_factory=list)


class DomPage:
    """The engine `dom`: an `envs.web.page.Page` that shows a site's pages without a browser.

    It runs no scripts and lays nothing out; styles count only where an attribute `style` hides an element. A form that
    is not valid is not sent, and its first wrong field gets the focus, as in a browser.
    """

    def __init__(self) -> None:
        self._site: Site | None = None
        self._tabs: list[Tab] = []
        self._tab = 0
        self._sources: list[Node] = []

    def open(self, site: Site) -> None:
        """Begin an episode: drop everything of the last one, then show `site.start`."""
        self._site = site
        self._tabs, self._tab = [], 0
        self._tabs = [Tab(self._load(_request(site.start)))]
        self._sources = []

    def observe(self) -> Snapshot:
        """Return the page as it is now."""
        document = self._document
        nodes, self._sources = read(document.tree, document.fields, document.open_nodes, document.focus)
        titles = tuple(tab.document.tree.title for tab in self._tabs) if len(self._tabs) > 1 else ()
        return Snapshot(document.url, document.tree.title, nodes, tabs=titles, tab=self._tab)

    def click(self, index: int) -> None:
        """Click an element."""
        self.click_node(self._node(index))

    def type(self, index: int, text: str, *, submit: bool = False) -> None:
        """Replace what a field holds by `text`; with `submit` press Enter in it."""
        node = self._node(index)
        is_text = node.tag == "textarea" or (node.tag == "input" and input_type(node) not in _UNTYPED)
        if not is_text:
            raise PageError(f"element {index} is a {role_of(node)}, which takes no text")
        if "readonly" in node.attrs:
            raise PageError(f"element {index} cannot be changed")
        self.focus(node)
        self._document.fields.set_text(node, text)
        self._document.is_edited = True
        if submit:
            self.press("Enter")

    def select(self, index: int, option: str) -> None:
        """Choose the option with this text in a select."""
        node = self._node(index)
        if node.tag != "select":
            raise PageError(f"element {index} is a {role_of(node)}, which has no options")
        self._document.fields.choose(node, option)
        self.focus(node)

    def press(self, key: str) -> None:
        """Press a key; without a focused element only Tab does something."""
        press_key(self, key)

    def scroll(self, direction: str) -> None:
        """Do nothing: without a layout there is nothing to scroll."""
        if direction not in ("up", "down"):
            raise PageError(unknown_message("direction", direction, ("up", "down")))

    def back(self) -> None:
        """Go back one page in the history of this tab; pages that a form was sent to are shown as they were."""
        tab = self._tabs[self._tab]
        if not tab.history:
            raise PageError("this is the first page of this tab; there is nothing to go back to")
        document = tab.history[-1]
        document = document if document.request.method == "POST" else self._load(document.request)
        tab.history.pop()
        tab.document = document

    def switch(self, tab: int) -> None:
        """Show the open tab with this place, from 0."""
        if not 0 <= tab < len(self._tabs):
            raise PageError(f"there is no tab {tab}; there are {len(self._tabs)}, counted from 0")
        self._tab = tab

    def release(self) -> None:
        """Keep everything: nobody waits for it."""

    def close(self) -> None:
        """Drop the site and its pages."""
        self._site, self._tabs, self._sources = None, [], []

    # What keys do too.

    @property
    def document(self) -> Document:
        """The page that is shown."""
        return self._document

    def focusable(self) -> list[Node]:
        """Return the elements of the latest snapshot that can have the focus, in order."""
        self.observe()
        return [node for node in self._sources if not is_disabled(node)]

    def focus(self, node: Node | None) -> None:
        """Give an element the focus. A field that was edited shows from then on whether it is valid."""
        document = self._document
        if document.focus is not None and document.focus is not node:
            if document.is_edited:
                document.fields.validity_shown.add(document.focus)
            document.is_edited = False
        document.focus = node

    def click_node(self, node: Node) -> None:
        """Click an element of the tree."""
        if is_disabled(node) or node.attrs.get("aria-disabled") == "true":
            raise PageError("this element is disabled")
        self.focus(node)
        kind = input_type(node) if node.tag == "input" else node.attrs.get("type", "submit").lower()
        if node.tag == "a" and "href" in node.attrs:
            self._follow(node.attrs["href"], node.attrs.get("target", ""))
        elif node.tag == "summary":
            self._toggle_details(node)
        elif node.tag == "input" and kind in CHECK_TYPES:
            self._document.fields.toggle(node)
        elif node.tag in ("button", "input") and kind in ("submit", "image"):
            form = self._document.fields.form_of(node)
            if form is not None:
                self.submit(form, node)
        elif node.tag in ("button", "input") and kind == "reset":
            form = self._document.fields.form_of(node)
            if form is not None:
                self._document.fields.reset(form)

    def submit(self, form: Node, button: Node | None) -> None:
        """Send a form by a button of it, unless a field is not valid, which then gets the focus."""
        document, attrs = self._document, button.attrs if button is not None else {}
        if "novalidate" not in form.attrs and "formnovalidate" not in attrs:
            members = document.fields.of_form(form)
            document.fields.validity_shown.update(members)
            wrong = next((node for node in members if not document.fields.is_valid(node)), None)
            if wrong is not None:
                self.focus(wrong)
                return
        method = (attrs.get("formmethod") or form.attrs.get("method", "get")).lower()
        if method == "dialog":
            dialog = form.ancestor("dialog")
            if dialog is not None:
                document.open_nodes.discard(dialog)
                document.focus = None
            return
        action = attrs.get("formaction", form.attrs.get("action", ""))
        url = self._address_within(action) if action.strip() else document.url
        data = document.fields.form_data(form, button)
        target = attrs.get("formtarget") or form.attrs.get("target", "")
        if method == "post":
            self._show(_request(url, data), target)
        else:
            self._show(_request(urlsplit(url)._replace(query=urlencode(data)).geturl()), target)

    @property
    def _document(self) -> Document:
        if not self._tabs:
            raise RuntimeError("no page is open; call open() first")
        return self._tabs[self._tab].document

    def _node(self, index: int) -> Node:
        if not 1 <= index <= len(self._sources):
            raise PageError(f"there is no element {index}; the page has {len(self._sources)}")
        node = self._sources[index - 1]
        if is_disabled(node) or node.attrs.get("aria-disabled") == "true":
            raise PageError(f"element {index} is disabled")
        return node

    def _follow(self, href: str, target: str) -> None:
        request = _request(self._address_within(href))
        if href.startswith("#"):
            return
        self._show(request, target, in_place=_address(request) == self._document.url)

    def _address_within(self, address: str) -> str:
        """The path and query that an address of the page means. Raises PageError for one of another site."""
        if (url := _join(self._document.url, address)) is None:
            raise PageError(f"the address {address[:80]!r} leads out of this site and cannot be opened")
        return url

    def _show(self, request: Request, target: str, *, in_place: bool = False) -> None:
        """Load a page and show it, unless in a new tab after the current one or, as if loaded again, in its place.

        Chromium has a link to the address that is shown in place, and what a form leads to never.
        """
        document = self._load(request)
        if target == "_blank":
            self._tabs.append(Tab(document))
            self._tab = len(self._tabs) - 1
            return
        tab = self._tabs[self._tab]
        if not in_place:
            tab.history.append(tab.document)
        tab.document = document

    def _load(self, request: Request) -> Document:
        if self._site is None:
            raise RuntimeError("no site is open; call open() first")
        for _ in range(MAX_REDIRECTS):
            response = self._site.respond(request)
            if not response.location:
                break
            if (url := _join(request.path, response.location)) is None:
                raise PageError("the page leads out of this site and cannot be opened")
            request = _request(url)
        else:
            raise PageError("the page leads to itself again and again and cannot be shown")
        tree = parse(response.html)
        open_nodes = {node for node in tree.elements if node.tag in ("details", "dialog") and "open" in node.attrs}
        return Document(request, _address(request), tree, Fields(tree), open_nodes)

    def _toggle_details(self, summary: Node) -> None:
        details, open_nodes = summary.parent, self._document.open_nodes
        if details is None or details.tag != "details":
            return
        if details in open_nodes:
            open_nodes.discard(details)
            return
        if name := details.attrs.get("name"):  # of details with one name at most one is open
            open_nodes -= {node for node in open_nodes if node.tag == "details" and node.attrs.get("name") == name}
        open_nodes.add(details)


def _join(base: str, address: str) -> str | None:
    """The path and query of an address on a page of the site at `base`, as a browser reads it, or None."""
    address = _UNREAD.sub("", address.strip(_SPACES))
    scheme = _SCHEME.match(address)
    if scheme is not None:
        if scheme[1].lower() != "http":
            return None
        address = address[scheme.end() :]  # without a host it is relative
    start = address.partition("#")[0].partition("?")[0]
    path = start.replace("\\", "/")
    if path.startswith("//"):  # a host
        return None
    if path and not path.startswith("/"):
        path = f"./{path}"  # so that nothing in it is a scheme
    return "/" + urljoin(base, path + address[len(start) :]).lstrip("/")


def _request(url: str, form: list[tuple[str, str]] | None = None) -> Request:
    """The request for an address, with a form to send if there is one."""
    parts = urlsplit(url)
    query = {key: tuple(values) for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if form is None:
        return Request(parts.path or "/", query)
    fields: dict[str, tuple[str, ...]] = {}
    for key, value in form:
        fields[key] = (*fields.get(key, ()), value)
    return Request(parts.path or "/", query, fields, "POST")


def _address(request: Request) -> str:
    query = urlencode([(key, value) for key, values in request.query.items() for value in values])
    return f"{request.path}?{query}" if query else request.path
