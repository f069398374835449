"""What an environment of pages sees and does, whichever engine shows them: a real browser or the DOM alone.

Both engines read a page by the same rules, so that their snapshots differ in boxes only:

- Elements are `a[href]`, `button`, `input` (not hidden), `select`, `textarea`, `summary`, and whatever has a role of a
  widget (button, link, checkbox, radio, switch, tab, menuitem, option, slider, textbox, searchbox, combobox), an
  `onclick`, `contenteditable` or a `tabindex` of at least 0. An element within an element is not listed.
- Left out is what is not rendered: `hidden`, `display: none`, `visibility: hidden`, `aria-hidden="true"`, the content
  of closed `details` and `dialog`, `svg`, `script`, `style`, `template`, `noscript`. In a browser also texts, though
  not elements, that nobody can see: with opacity 0 or font size 0, clipped to a pixel, or beyond the upper or left edge
  of the page; not those in the colour of what is behind them.
- Role: the attribute `role`; else link, button (`button`, `summary`, `input` of type submit, button, reset, image and
  file), checkbox, radio, slider (range), spinbutton (number), searchbox (search), combobox (`select`), listbox (`select
  multiple`), textbox (every other `input`, `textarea`, `contenteditable`); "generic" for anything else.
- Name: `aria-label`; else the text of `aria-labelledby`; else of its `label`s, without what fields in them hold; else,
  of no field, its own text; else `value` (of `input` buttons), `alt`, `placeholder`, `title`. White space is collapsed.
- Value: what a field holds, of a password a dot (U+2022) for each character; the chosen option's text; "" for
  checkboxes, radios, buttons and links.
- States: "expanded" for the `summary` of open `details` and `aria-expanded="true"`; "focused" for the active element,
  never the body; "required" and "invalid" by attribute (`aria-required`, `aria-invalid`), the latter also for what
  `:user-invalid` matches; "checked" also by `aria-checked`, `aria-selected` and `aria-current`; "disabled" also by
  `aria-disabled` and a disabled `fieldset`.
- Texts: a run of text ends at an element, at the border of a block and at `br`. The text of a label that names an
  element and the text of an element are no texts. Runs within `h1` to `h6` have the heading's level. White space is
  collapsed, empty runs are left out.
- Rows: each `tr` is one, a header row if all its cells are `th`; rows without any content are left out. Tables within
  tables are read as the text of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from envs.types import ToolError
from envs.web.site import Site

VIEWPORT = (800, 600)  # width and height in CSS pixels, where pages are laid out


@dataclass(frozen=True)
class Element:
    """An interactive element as a policy sees it.

    Attributes:
        index: Its number in this snapshot, from 1 in reading order.
        role: Its ARIA role: "button", "link", "textbox", "checkbox", "radio", "combobox", "slider", ...
        name: Its accessible name.
        value: What a field holds; of a select the chosen option's text.
        states: Of "checked", "disabled", "expanded", "focused", "required", "invalid", in this order.
        options: The texts of a select's options, in order.
        box: x, y, width and height in CSS pixels of the viewport; None where nothing is laid out.
    """

    index: int
    role: str
    name: str
    value: str = ""
    states: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class Text:
    """A run of visible text that is no element's name. `level` is a heading's level, 1 to 6, and 0 for other text."""

    content: str
    level: int = 0


@dataclass(frozen=True)
class Row:
    """The cells of a table row, each a run of texts and elements. `header` says that all of them are header cells."""

    cells: tuple[tuple[Text | Element, ...], ...]
    header: bool = False


@dataclass(frozen=True)
class Snapshot:
    """A page at one moment.

    Attributes:
        url: Its address without the origin, such as "/cart?page=2".
        title: Its title.
        nodes: Texts, elements and table rows in reading order.
        above, below: CSS pixels of the page above and below the viewport; 0 where nothing is laid out.
        tabs: The titles of all open tabs, if there are several; `tab` is the place of this one.
    """

    url: str
    title: str
    nodes: tuple[Text | Element | Row, ...]
    above: float = 0.0
    below: float = 0.0
    tabs: tuple[str, ...] = ()
    tab: int = 0

    def elements(self) -> tuple[Element, ...]:
        """Return all elements, in order of their index."""
        parts_found = []
        for node in self.nodes:
            parts = [part for cell in node.cells for part in cell] if isinstance(node, Row) else [node]
            parts_found += [part for part in parts if isinstance(part, Element)]
        return tuple(parts_found)


class PageError(ToolError):
    """An action that the page does not allow: no such element, a disabled one, an option that it lacks."""


class PageHung(ToolError):
    """The page did not answer within the deadline of one action: its own doing, not the browser's."""


class BrowserFault(RuntimeError):
    """The browser died or did not answer: the episode is played again, and nothing is scored."""


class Page(Protocol):
    """One page of a site, open for one episode. Every action returns when its effect can be observed.

    Indices are those of the latest snapshot. Actions raise PageError or PageHung for what the policy can mend, and
    BrowserFault for what it cannot.
    """

    def open(self, site: Site) -> None:
        """Begin an episode: drop everything of the last one, then show `site.start`."""

    def observe(self) -> Snapshot:
        """Return the page as it is now."""

    def click(self, index: int) -> None:
        """Click an element."""

    def type(self, index: int, text: str, *, submit: bool = False) -> None:
        """Replace what a field holds by `text`; with `submit` press Enter in it."""

    def select(self, index: int, option: str) -> None:
        """Choose the option with this text in a select."""

    def press(self, key: str) -> None:
        """Press a key or combination named as in `KeyboardEvent.key`: "Enter", "Escape", "ArrowDown", "Control+A"."""

    def scroll(self, direction: str) -> None:
        """Scroll by most of a screen, "up" or "down"; without a layout there is nothing to scroll."""

    def back(self) -> None:
        """Go back one page in the history of this tab, which is then asked for again; a PageError on the first page."""

    def switch(self, tab: int) -> None:
        """Show the open tab with this place in `Snapshot.tabs`, from 0. A new tab is shown when it opens."""

    def release(self) -> None:
        """End the episode and give back what others may be waiting for; `open` begins the next one."""

    def close(self) -> None:
        """Give back what the page holds. It can be called more than once."""


class PicturePage(Page, Protocol):
    """A page that is laid out. Points are in CSS pixels of the viewport."""

    def picture(self) -> dict[str, Any]:
        """Return the viewport as a content block `image_url`."""
        ...

    def click_at(self, x: float, y: float, *, double: bool = False) -> None:
        """Click a point."""

    def type_at(self, x: float, y: float, text: str, *, submit: bool = False) -> None:
        """Click a point and replace what the field there holds by `text`; with `submit` press Enter."""

    def scroll_at(self, x: float, y: float, pixels: int) -> None:
        """Turn the wheel over a point, downwards for positive `pixels`."""

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Press the mouse on a point, move it to another and let go."""
