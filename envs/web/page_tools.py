"""The tools by which a policy acts on a page, and what it was shown of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

import numpy as np
from pydantic import Field

from envs.tools.text_calls import TextCall
from envs.tools.tool import tool
from envs.types import Message, Messages, ToolError, assistant, user
from envs.web.engines import with_picture
from envs.web.page import Element, Page, PageError, PicturePage, Snapshot
from envs.web.pointing import MAX_TYPED, Pointing
from envs.web.view import View, describe
from envs.web.wording import indices_by_name, parse_words, words_of

Outline = tuple[str, int, tuple[tuple[str, str], ...]]


class PageTools(Pointing):
    """Tools over `page`, an `envs.web.page.Page`. Numbers of elements are those of the page as it was last shown.

    A subclass opens a page in `start`, calls `look` whenever the policy is shown the page, and judges the episode once
    `closing` is set.

    Attributes:
        page: The page; None before the first episode and after `close`.
        snapshot: The page as it is now.
        view: The page as it was last shown; `part` is the part of it.
        closing: The tool that ended the episode and its text; None while it goes on.
        max_chars: Characters of a page that are shown at once, about.
        reminder: What stands below every page that is shown; "" for nothing.
        _events: The calls of the episode; None where the policy was shown the page.
    """

    page: Page | None = None
    snapshot: Snapshot
    view: View
    part: int = 0
    closing: tuple[str, str] | None = None
    max_chars: int
    reminder: str = ""
    _outline: Outline = ("", 0, ())
    _events: list[tuple[str, str] | None]

    def begin(self, page: Page) -> None:
        """Show a page whose site has just been opened."""
        self.page, self.closing, self.part, self._outline, self._events = page, None, 0, ("", 0, ()), []
        self.snapshot = page.observe()
        self.look()
        self._events = []

    def __getstate__(self) -> dict[str, Any]:
        """Leave a browser out: a copy opens the episode's first page anew and makes its calls again."""
        return {**vars(self), "page": None} if self.blocking else dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.blocking and self._phase == "playing":
            events = self._events
            self.start()
            for event in events:
                with contextlib.suppress(ToolError):
                    self.look() if event is None else self.call(*event)

    def look(self) -> None:
        """Make the latest snapshot the one that the policy is shown; another page is shown from its top."""
        self.view = View(self.snapshot, is_short=self.style == "short", max_chars=self.max_chars)
        outline = _outline_of(self.snapshot)
        if outline[:2] != self._outline[:2]:
            self.part = 0
        self.part = min(self.part, self.view.parts - 1)
        self._outline = outline
        self._events.append(None)

    def page_message(self, head: str) -> Message:
        """Return the message that shows the part of the page below `head`, with its picture where there is one."""
        text = self.view.text(self.part)
        if head:
            text = f"{head}\n{text}" if self.style == "short" else f"{head}\n\n{text}"
        if self.reminder:
            text = f"{text}\n{self.reminder}"
        return user(text) if self.pictures == "text" else with_picture(text, self._live_page)

    def shown_results(self, results: Messages) -> Messages:
        """Return the results of calls with the page, as it is now, below the last one; in short style errors only."""
        self.look()
        *others, last = results
        text = last["content"]
        if self.style == "short":
            text = "\n".join(line for line in text.split("\n") if line.startswith("error: "))
        return (*others, {**last, "content": self.page_message(text)["content"]})

    def refusal_message(self) -> Message:
        """Return the answer to a reply without a call."""
        page = self.view.text(self.part)
        return user(self.correction("There is no call of a tool in this reply.", page, short="?"))

    @tool
    def click(self, element: int) -> str:
        """Click an element: follow a link, press a button, tick or untick a box, open or close a section.

        Args:
            element: Its number, as the page was last shown.
        """
        target = self._element(element)
        self._live_page.click(element)
        return f"clicked {describe(target)}"

    @tool(name="type")
    def type_text(self, element: int, text: Annotated[str, Field(max_length=MAX_TYPED)], submit: bool = False) -> str:
        """Replace what a field holds by a text.

        Args:
            element: Its number, as the page was last shown.
            text: The text. A date is written as 2031-05-20, a time as 09:30, a number as 12.5.
            submit: Whether to press Enter afterwards.
        """
        target = self._element(element)
        self._live_page.type(element, text, submit=submit)
        return f"typed into {describe(target)}"

    @tool
    def select(self, element: int, option: str) -> str:
        """Choose an option of a combobox.

        Args:
            element: Its number, as the page was last shown.
            option: The text of the option, whole.
        """
        target = self._element(element)
        self._live_page.select(element, option)
        return f"chose in {describe(target)}"

    @tool
    def press(self, key: str) -> str:
        """Press a key on the focused element.

        Args:
            key: Its name, such as Enter, Tab, Space, Escape, ArrowDown or Backspace.
        """
        self._check_playing()
        self._live_page.press(key)
        return "pressed the key"

    @tool
    def scroll(self, direction: Literal["up", "down"]) -> str:
        """Show the next or the previous part of a long page.

        Args:
            direction: Where to.
        """
        self._check_playing()
        self._live_page.scroll(direction)
        part = self.part + (1 if direction == "down" else -1)
        if 0 <= part < self.view.parts:
            self.part = part
            return f"scrolled {direction}"
        return f"there is nothing more of the page {'below' if direction == 'down' else 'above'}"

    @tool
    def back(self) -> str:
        """Go back to the previous page."""
        self._check_playing()
        self._live_page.back()
        return "went back"

    @tool
    def switch_tab(self, tab: int) -> str:
        """Show another of the open tabs.

        Args:
            tab: Its number, from 0.
        """
        self._check_playing()
        self._live_page.switch(tab)
        return "switched the tab"

    @tool
    def stop(self) -> str:
        """End the episode: the goal is reached, and no answer was asked for."""
        return self._end("stop", "")

    @tool(name="answer")
    def give_answer(self, text: Annotated[str, Field(max_length=MAX_TYPED)]) -> str:
        """End the episode with the answer that the goal asks for.

        Args:
            text: The answer alone, as the site shows it.
        """
        return self._end("answer", text)

    @tool
    def report_impossible(self, reason: Annotated[str, Field(max_length=MAX_TYPED)] = "") -> str:
        """End the episode: the goal cannot be reached on this site.

        Args:
            reason: Why, in a sentence.
        """
        return self._end("impossible", "")

    def call(self, name: str, arguments: str) -> str:
        """Make a call; whatever it does, the page is read anew."""
        self._events.append((name, arguments))
        result, mistake = "", None
        try:
            try:
                result = super().call(name, arguments)
            except ToolError as error:
                mistake = error
            if self.closing is None:
                self.snapshot = self._live_page.observe()
        except ToolError:
            raise
        except Exception:  # the browser's or the site's: the episode is over, and another one may have its place
            self.release()
            raise
        if mistake is not None:
            raise mistake
        return result

    def text_calls(self, line: str) -> Sequence[TextCall]:
        """Read calls in the form of the style."""
        if self.style == "short":
            return parse_words(line, self.snapshot.elements())
        return super().text_calls(line)

    def random(self, rng: np.random.Generator) -> Message:
        """Act on an element; stop on a page without any."""
        elements = self.snapshot.elements()
        if not elements:
            return self.call_message("stop", {})
        element = elements[int(rng.integers(len(elements)))]
        if element.options:
            option = element.options[int(rng.integers(len(element.options)))]
            return self.call_message("select", {"element": element.index, "option": option})
        if element.role in ("textbox", "searchbox", "spinbutton"):
            return self.call_message("type", {"element": element.index, "text": str(rng.integers(10))})
        return self.call_message("click", {"element": element.index})

    def call_message(self, name: str, arguments: dict[str, Any]) -> Message:
        """Return the reply that makes one call, in the form of the style."""
        if self.style == "short":
            return assistant(words_of(name, arguments, indices_by_name(self.snapshot.elements())))
        return assistant(tool_calls=[(name, arguments)], first_id=self.turns)

    def release(self) -> None:
        """End the page's episode, so that another one has room in the browser."""
        if self.page is not None:
            self.page.release()

    def close(self) -> None:
        """Close the page and its engine."""
        if self.page is not None:
            self.page.close()
            self.page = None
        super().close()

    @property
    def _live_page(self) -> Page:
        if self.page is None:
            raise RuntimeError("no episode has begun; call reset()")
        return self.page

    def _check_playing(self) -> None:
        if self.closing is not None:
            raise ToolError("the episode has been ended by an earlier call")

    @property
    def _pointed_page(self) -> PicturePage:
        return cast(PicturePage, self._live_page)

    def _check_shown(self) -> None:
        self._check_playing()
        if _outline_of(self.snapshot) != self._outline:
            raise PageError("the page has changed since it was shown; look at it before you act on an element")

    def _element(self, index: int) -> Element:
        """The element of this index on the page as it was last shown. Raises PageError if the page is another now."""
        self._check_shown()
        elements = self.snapshot.elements()
        if not 1 <= index <= len(elements):
            raise PageError(f"there is no element {index}; this page has {len(elements)}, counted from 1")
        return elements[index - 1]

    def _end(self, how: str, text: str) -> str:
        self._check_playing()
        self.closing = (how, text)
        return "the episode is over"


def _outline_of(snapshot: Snapshot) -> Outline:
    """What an index relies on: the address, the tab, and the roles and names of all elements."""
    elements = tuple((element.role, element.name) for element in snapshot.elements())
    return (snapshot.url, snapshot.tab, elements)
