"""Base class of environments of pages: tools to act on a page, a text of what it shows, a reward by the final state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from envs.episodes.guide import Guide
from envs.procedural import drawn
from envs.tools.text_calls import TextCall
from envs.tools.tool import tool
from envs.tools.tool_env import ToolEnv
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, user
from envs.web.case import Case, Draw, Kind, Step
from envs.web.engines import ENGINES, VIEWS, open_engine, with_picture
from envs.web.page import BrowserFault, Element, Page, PageError, Snapshot
from envs.web.script import call_of, element_of
from envs.web.verification import changes, partial_score
from envs.web.view import View, describe
from envs.web.wording import INVALID, REPLY, RULES, parse_words, words_of

LENGTHS = {"train": 20_000, "val": 100, "test": 120}
LEVELS = (1, 2, 3)
MAX_CHARS = {"full": 6000, "short": 1500}
MAX_TYPED = 2000
Index = Annotated[int, Field(description="The number of the element, as the page was last shown.")]


class WebEnv(ToolEnv):
    """Reach a goal on a site by acting on the elements of its pages.

    A subclass sets `key`, `kinds` and `purpose`. Reward, at the end, is the product of two named parts, each 0 or 1.
    `state`: the site's data are what the goal asks for, and nothing else has changed. `answer`: the episode was ended
    in the right way: with the answer where one is asked, by `report_impossible` where the goal cannot be reached.

    Args:
        kind: One kind of task only, "any" for all.
        level: Difficulty, 1 to 3.
        engine: "dom" reads and acts on the HTML in this process; "chromium" shows the same pages in a browser.
        view: "text"; with the engine "chromium" also "screenshot" and "marks", which add a picture of the page.
        max_chars: Characters of a page that are shown at once, about; None for 6,000, in short style 1,500.
        browser: Path of the browser's program; None to look for one.
        limits: Arguments of `Env`.
    """

    key: ClassVar[str]
    kinds: ClassVar[Mapping[str, Kind]]
    purpose: ClassVar[str]  # what the site is, for the opening
    max_turns = 30

    case: Case

    def __init__(
        self,
        *,
        kind: str = "any",
        level: int = 1,
        engine: Literal["dom", "chromium"] = "dom",
        view: Literal["text", "screenshot", "marks"] = "text",
        max_chars: int | None = None,
        browser: str | None = None,
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        if kind not in ("any", *self.kinds):
            raise ValueError(f"kind {kind!r} is not one of any, {', '.join(self.kinds)}")
        if isinstance(level, bool) or level not in LEVELS:
            raise ValueError(f"level {level!r} is not one of 1, 2, 3")
        if engine not in ENGINES:
            raise ValueError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
        if view not in VIEWS:
            raise ValueError(f"view {view!r} is not one of {', '.join(VIEWS)}")
        if view != "text" and engine == "dom":
            raise ValueError(f"view {view!r} needs engine 'chromium': without a browser there are no pictures")
        if max_chars is not None and max_chars < 200:
            raise ValueError(f"max_chars {max_chars!r} is below 200, too little for a page")
        self.kind, self.level, self.engine, self.view, self.browser = kind, level, engine, view, browser
        self.max_chars = max_chars or MAX_CHARS["short" if self.style == "short" else "full"]
        self.blocking = engine == "chromium"
        self._page: Page | None = None
        if self.style == "short":
            self.tools = ()

    def tasks(self, split: str) -> Sequence[Task]:
        """Cases by their seeds. No goal on the same data is in two splits."""
        key = f"{self.key}:{self.kind}:{self.level}"
        return drawn(split, LENGTHS[split], self._draw_task, key=key, same=lambda task: task.metadata["content"])

    def start(self) -> Messages:
        """Show the goal and the site's first page."""
        metadata = self.task.metadata
        self.case = _load_case(type(self), metadata["kind"], metadata["seed"], metadata["level"])
        self.site = self.case.site.fork()
        self._ending: tuple[str, str] | None = None  # the tool that ended the episode, and its text
        self._part, self._shown_outline = 0, ("", 0, ())
        if self._page is None:
            self._page = open_engine(self.engine, self.view, self.browser)
        self._page.open(self.site)
        self._read_page()
        self._look()
        goal = self.case.short if self.style == "short" else f"Goal: {self.case.goal}"
        return (self._shown_message(goal),)

    def guide(self) -> Guide:
        """Say what the site is for, how pages are shown, and which tools there are."""
        return Guide(
            goal=f"{self.purpose} You succeed if the site is left as the goal says and nothing else has changed in it.",
            rules=RULES,
            reply=REPLY,
            thinking="You may think first; put your calls at the end of your reply.",
            example='{"name": "scroll", "arguments": {"direction": "down"}}',
            ending=(
                "The episode ends when you call stop, answer or report_impossible. If your replies run out, the site is "
                "judged as it is then."
            ),
            invalid=INVALID,
            heading="The goal, and the first page:",
        )

    def state(self) -> str:
        """A digest of the site's data and of the page as it stands."""
        data = json.dumps(self.site.state(), sort_keys=True)
        text = repr((data, self._snapshot, self._part, self._ending))
        return f"{self.task.id} {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"

    @tool
    def click(self, element: Index) -> str:
        """Click an element: follow a link, press a button, tick or untick a box, open or close a section."""
        target = self._element(element)
        self._open_page.click(element)
        return f"clicked {describe(target)}"

    @tool(name="type")
    def type_text(self, element: Index, text: Annotated[str, Field(max_length=MAX_TYPED)], submit: bool = False) -> str:
        """Replace what a field holds by a text.

        Args:
            text: The text. A date is written as 2031-05-20, a time as 09:30, a number as 12.5.
            submit: Whether to press Enter afterwards.
        """
        target = self._element(element)
        self._open_page.type(element, text, submit=submit)
        return f"typed into {describe(target)}"

    @tool
    def select(self, element: Index, option: str) -> str:
        """Choose an option of a combobox.

        Args:
            option: The text of the option.
        """
        target = self._element(element)
        self._open_page.select(element, option)
        return f"chose in {describe(target)}"

    @tool
    def press(self, key: str) -> str:
        """Press a key on the focused element.

        Args:
            key: Its name, such as Enter, Tab, Space, Escape, ArrowDown or Backspace.
        """
        self._check_playing()
        self._open_page.press(key)
        return "pressed the key"

    @tool
    def scroll(self, direction: Literal["up", "down"]) -> str:
        """Show the next or the previous part of a long page."""
        self._check_playing()
        self._open_page.scroll(direction)
        part = self._part + (1 if direction == "down" else -1)
        if 0 <= part < self._shown.parts:
            self._part = part
            return f"scrolled {direction}"
        return f"there is nothing more of the page {'below' if direction == 'down' else 'above'}"

    @tool
    def back(self) -> str:
        """Go back to the previous page."""
        self._check_playing()
        self._open_page.back()
        return "went back"

    @tool
    def switch_tab(self, tab: int) -> str:
        """Show another of the open tabs.

        Args:
            tab: Its number, from 0.
        """
        self._check_playing()
        self._open_page.switch(tab)
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
        try:
            return super().call(name, arguments)
        except BrowserFault:
            self._page = None
            raise
        finally:
            if self._page is not None and self._ending is None:
                self._read_page()

    def text_calls(self, line: str) -> Sequence[TextCall]:
        """Read calls in the form of the style."""
        return parse_words(line) if self.style == "short" else super().text_calls(line)

    def answer(self, reply: str) -> Outcome:
        """Refuse a reply without a call."""
        page = self._shown.text(self._part)
        text = self.correction("There is no call of a tool in this reply.", page, short="?")
        return self._go_on((user(text),), valid=False)

    def after_calls(self, results: Messages) -> Outcome:
        """Show the page below the last result, or judge the state once the episode is ended."""
        if self._ending is not None:
            return self._judge((), is_over=True)
        self._look()
        *others, last = results
        text = last["content"]
        if self.style == "short":
            text = "\n".join(line for line in text.split("\n") if line.startswith("error: "))
        shown = self._shown_message(text)
        return self._go_on((*others, {**last, "content": shown["content"]}))

    def ending(self, outcome: Outcome) -> str:
        """Say which parts are right."""
        state = "The site is as the goal asks" if outcome.rewards["state"] else "The site is not as the goal asks"
        if self.case.is_impossible and not outcome.rewards["answer"]:
            return f"{state}; the goal cannot be reached, which you did not report."
        if not outcome.rewards["answer"]:
            return f"{state}; the answer is missing or wrong." if self.case.answer else f"{state}; it could be reached."
        return f"{state}."

    def oracle(self) -> Iterator[Message]:
        """Play the case's script, looking for its elements on the page that is shown."""
        for step in self.case.steps:
            yield from self.play_step(step)

    def play_step(self, step: Step) -> Iterator[Message]:
        """Yield the replies that play a step of a script: after scrolling to its element, if need be, its call."""
        index = None
        if step.act in ("click", "type", "select"):
            index = element_of(self._snapshot, step).index
            while (part := self._shown.part_of(index)) != self._part:
                yield self._call_message("scroll", {"direction": "down" if part > self._part else "up"})
        yield self._call_message(*call_of(step, index))

    def random(self, rng: np.random.Generator) -> Message:
        """Act on an element, go back or stop."""
        elements = self._snapshot.elements()
        if not elements or rng.random() < 0.1:
            return self._call_message(("back", "stop", "report_impossible")[int(rng.integers(3))], {})
        element = elements[int(rng.integers(len(elements)))]
        if element.options:
            option = element.options[int(rng.integers(len(element.options)))]
            return self._call_message("select", {"element": element.index, "option": option})
        if element.role in ("textbox", "searchbox", "spinbutton"):
            return self._call_message("type", {"element": element.index, "text": str(rng.integers(10))})
        return self._call_message("click", {"element": element.index})

    def attacks(self) -> Sequence[str]:
        """Replies that must earn 0: endings without work, answers that name everything, markup in fields."""
        names = " ".join(element.name for element in self._snapshot.elements())
        calls = [
            ("stop", {}),
            ("answer", {"text": names}),
            ("answer", {"text": f"{self.case.answer} or {names}"}),
            ("type", {"element": 1, "text": "<button>Done</button>\n[1] button"}),
            ("click", {"element": 10**9}),
            ("click", {"element": -1}),
        ]
        if not self.case.is_impossible:
            calls.append(("report_impossible", {"reason": "no"}))
        return (
            *super().attacks(),
            *(json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls),
            *(words_of(name, arguments) for name, arguments in calls),
        )

    def close(self) -> None:
        """Close the page and its engine."""
        if self._page is not None:
            self._page.close()
            self._page = None
        super().close()

    @property
    def _open_page(self) -> Page:
        if self._page is None:
            raise RuntimeError("no episode has begun; call reset()")
        return self._page

    def _draw_task(self, rng: np.random.Generator) -> Task:
        seed = int(rng.integers(2**48))
        kind = self.kind if self.kind != "any" else list(self.kinds)[int(rng.integers(len(self.kinds)))]
        case = _load_case(type(self), kind, seed, self.level)
        content = json.dumps([case.goal, case.site.state()], sort_keys=True)
        digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        metadata = {"kind": kind, "seed": seed, "level": self.level, "content": digest}
        return Task("", answer=case.answer or None, metadata=metadata)

    def _check_playing(self) -> None:
        if self._ending is not None:
            raise ToolError("the episode has been ended by an earlier call")

    def _element(self, index: int) -> Element:
        """The element of this index on the page as it was last shown. Raises PageError if the page is another now."""
        self._check_playing()
        elements = self._snapshot.elements()
        if _outline(self._snapshot) != self._shown_outline:
            raise PageError("the page has changed since it was shown; look at it before you act on an element")
        if not 1 <= index <= len(elements):
            raise PageError(f"there is no element {index}; this page has {len(elements)}, counted from 1")
        return elements[index - 1]

    def _end(self, how: str, text: str) -> str:
        self._check_playing()
        self._ending = (how, text)
        return "the episode is over"

    def _read_page(self) -> None:
        """Take a new snapshot."""
        self._snapshot: Snapshot = self._open_page.observe()

    def _look(self) -> None:
        """Make the latest snapshot the one that the policy is shown; another page is shown from its top."""
        self._shown = View(self._snapshot, is_short=self.style == "short", max_chars=self.max_chars)
        outline = _outline(self._snapshot)
        if outline[:2] != self._shown_outline[:2]:
            self._part = 0
        self._part = min(self._part, self._shown.parts - 1)
        self._shown_outline = outline

    def _shown_message(self, head: str) -> Message:
        text = f"{head}\n\n{self._shown.text(self._part)}" if self.style != "short" else self._shown.text(self._part)
        if self.style == "short" and head:
            text = f"{head}\n{text}"
        return user(text) if self.view == "text" else with_picture(text, self._open_page)

    def _call_message(self, name: str, arguments: dict[str, Any]) -> Message:
        if self.style == "short":
            return assistant(words_of(name, arguments))
        return assistant(tool_calls=[(name, arguments)], first_id=self.turns)

    def _go_on(self, messages: Messages, *, valid: bool = True) -> Outcome:
        if self.turns + 1 >= self.max_turns:
            outcome = self._judge(messages, is_over=False)
            outcome.valid = valid
            return outcome
        return Outcome(messages, valid=valid, rewards={"state": 0.0, "answer": 0.0})

    def _judge(self, messages: Messages, *, is_over: bool) -> Outcome:
        case = self.case
        before, after = case.site.verified(), self.site.verified()
        expected, actual = changes(before, case.goal_state), changes(before, after)
        how, text = self._ending or ("stop", "")
        if case.is_impossible:
            is_answered = how == "impossible"
        elif case.answer:
            is_answered = how == "answer" and _plain(text) == _plain(case.answer)
        else:
            is_answered = how == "stop"
        parts = {"state": float(expected == actual), "answer": float(is_answered)}
        success = all(parts.values())
        metrics = {"score": partial_score(expected, actual)}
        return Outcome(messages, float(success), is_over, success, rewards=parts, metrics=metrics)


@lru_cache(maxsize=1024)
def _load_case(cls: type[WebEnv], kind: str, seed: int, level: int) -> Case:
    return cls.kinds[kind](Draw(seed, level))


def _outline(snapshot: Snapshot) -> tuple[str, int, tuple[tuple[str, str], ...]]:
    """What an index relies on: the address, the tab, and the roles and names of all elements."""
    elements = tuple((element.role, element.name) for element in snapshot.elements())
    return (snapshot.url, snapshot.tab, elements)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
