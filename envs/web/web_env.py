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
from envs.types import Message, Messages, Outcome, Task
from envs.web.case import Case, Draw, Grade, Kind, Step
from envs.web.dom.dom_page import DomPage
from envs.web.engines import ENGINES
from envs.web.page_task import PageTask
from envs.web.script import call_of, element_of
from envs.web.sites.answers import is_right
from envs.web.sites.verification import changes, partial_score
from envs.web.view import View
from envs.web.wording import INVALID, REPLY, RULES, words_of

MOST_CHARS = 100_000  # of a page that is compared with others
LENGTHS = {"train": 1_500, "val": 60, "test": 80}
Index = Annotated[int, Field(description="The number of the element, as the page was last shown.")]


class WebEnv(PageTask):
    """Reach a goal on a site by acting on the elements of its pages.

    A subclass sets `key`, `kinds` and `purpose`. Reward, at the end, is the product of two named parts, each 0 or 1.
    `state`: the site's data are what the goal asks for, and nothing else has changed. `answer`: the episode was ended
    in the right way: with the answer where one is asked, by `report_impossible` where the goal cannot be reached.

    Args:
        kind: One kind of task only, "any" for all.
        level: Difficulty, 1 to 3, or 0 for the first pages of a model, which some kinds have and others are as at 1.
        engine: "dom" reads and acts on the HTML in this process; "chromium" shows the same pages in a browser.
        view: "text"; with the engine "chromium" also "screenshot" and "marks", which add a picture of the page and
            tools that act on points of it.
        picture_width: Width of a picture in pixels; None for that of the viewport, 800.
        points: How points of a picture are given: "pixels" or "thousandths" of its size.
        max_chars: Characters of a page that are shown at once, about; None for 6,000, in short style 1,500.
        browser: Path of the browser's program; None to look for one.
        headed: Whether the engine "chromium" shows its window.
        limits: Arguments of `Env`.
    """

    key: ClassVar[str]
    kinds: ClassVar[Mapping[str, Kind]]
    levels: ClassVar[Sequence[int]] = (0, 1, 2, 3)
    # Whether tasks of level 0 are the same if their openings are: little of a small site is out of sight.
    splits_by_opening: ClassVar[bool] = True
    parts: ClassVar[Sequence[str]] = ("state", "answer")
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
        picture_width: int | None = None,
        points: Literal["pixels", "thousandths"] = "pixels",
        max_chars: int | None = None,
        browser: str | None = None,
        headed: bool = False,
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        if kind not in ("any", *self.kinds):
            raise ValueError(f"kind {kind!r} is not one of any, {', '.join(self.kinds)}")
        if isinstance(level, bool) or level not in self.levels:
            raise ValueError(f"level {level!r} is not one of {', '.join(map(str, self.levels))}")
        if engine not in ENGINES:
            raise ValueError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
        self.use_pictures(view, picture_width, points)
        if view != "text" and engine == "dom":
            raise ValueError(f"view {view!r} needs engine 'chromium': without a browser there are no pictures")
        self.kind, self.level, self.engine = kind, level, engine
        self.use_browser(browser, headed, max_chars)
        self.blocking = engine == "chromium"

    def tasks(self, split: str) -> Sequence[Task]:
        """Cases by their seeds. No goal on the same data is in two splits."""
        key = f"{self.key}:{self.kind}:{self.level}"
        return drawn(split, LENGTHS[split], self._draw_task, key=key, same=lambda task: task.metadata["content"])

    def start(self) -> Messages:
        """Show the goal and the site's first page; in short style the goal stands below every page."""
        metadata = self.task.metadata
        self.case = _load_case(self.kinds[metadata["kind"]], metadata["seed"], metadata["level"])
        self.site = self.case.site.fork()
        page = self.engine_page()
        page.open(self.site)
        self.begin(page)
        is_short = self.style == "short"
        self.reminder = self.case.short if is_short else ""  # near the reply, where a small model finds it
        return (self.page_message("" if is_short else f"Goal: {self.case.goal}"),)

    def guide(self) -> Guide:
        """Say what the site is for, how pages are shown, and which tools there are."""
        return Guide(
            goal=f"{self.purpose} You succeed if the site is left as the goal says and nothing else has changed in it.",
            rules=RULES + self.point_rules(),
            reply=REPLY,
            thinking="You may think first; put your calls at the end of your reply.",
            example='{"name": "scroll", "arguments": {"direction": "down"}}',
            ending=(
                "The episode ends when you call stop, answer or report_impossible. If your replies run out, the site "
                "is judged as it is then."
            ),
            invalid=INVALID,
            heading="The goal, and the first page:",
        )

    def state(self) -> str:
        """A digest of the site's data and of the page as it stands."""
        data = json.dumps(self.site.state(), sort_keys=True)
        text = repr((data, self.snapshot, self.part, self.closing))
        return f"{self.task.id} {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"

    def ending(self, outcome: Outcome) -> str:
        """Say which parts are right."""
        state = "The site is as the goal asks" if outcome.rewards["state"] else "The site is not as the goal asks"
        if self.case.is_impossible and not outcome.rewards["answer"]:
            return f"{state}; the goal cannot be reached, which you did not report."
        if not outcome.rewards["answer"]:
            return f"{state}; the answer is missing or wrong." if self.case.answer else f"{state}; it could be reached."
        return f"{state}; the answer is right." if self.case.answer else f"{state}."

    def oracle(self) -> Iterator[Message]:
        """Play the case's script, looking for its elements on the page that is shown."""
        for step in self.case.steps:
            yield from self.play_step(step)

    def play_step(self, step: Step) -> Iterator[Message]:
        """Yield the replies that play a step of a script: after scrolling to its element, if need be, its call."""
        index = None
        if step.act in ("click", "type", "select"):
            index = element_of(self.snapshot, step).index
            while (part := self.view.part_of(index)) != self.part:
                yield self.call_message("scroll", {"direction": "down" if part > self.part else "up"})
        yield self.call_message(*call_of(step, index))

    def random(self, rng: np.random.Generator) -> Message:
        """Act on an element, go back or stop."""
        if not self.snapshot.elements() or rng.random() < 0.1:
            return self.call_message(("back", "stop", "report_impossible")[int(rng.integers(3))], {})
        return super().random(rng)

    def attacks(self) -> Sequence[str]:
        """Replies that must earn 0: endings without work, answers that name everything, markup in fields."""
        names = " ".join(element.name for element in self.snapshot.elements())
        calls: list[tuple[str, dict[str, Any]]] = [
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

    def _draw_task(self, rng: np.random.Generator) -> Task:
        seed = int(rng.integers(2**48))
        kind = self.kind if self.kind != "any" else list(self.kinds)[int(rng.integers(len(self.kinds)))]
        case = _load_case(self.kinds[kind], seed, self.level)
        by_opening = self.level == 0 and self.splits_by_opening
        identity = _opening(case) if by_opening else [case.goal, case.site.state()]
        content = json.dumps(identity, sort_keys=True)
        digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        metadata = {"kind": kind, "seed": seed, "level": self.level, "content": digest}
        return Task("", answer=case.answer or None, metadata=metadata)

    def verdict(self, messages: Messages, *, is_over: bool) -> Outcome:
        """Compare the site's data with those of the goal, or grade them as the case does."""
        grade = self.case.grade(self.site.verified()) if self.case.grade else self._compare()
        reward, metrics = grade.reward, {"score": grade.score}
        return Outcome(messages, reward, is_over, reward == 1.0, rewards=grade.parts, metrics=metrics)

    def _compare(self) -> Grade:
        case = self.case
        before, after = case.site.verified(), self.site.verified()
        expected, actual = changes(before, case.goal_state), changes(before, after)
        how, text = self.closing or ("stop", "")
        if case.is_impossible:
            is_answered = how == "impossible"
        elif case.answer:
            is_answered = how == "answer" and is_right(text, case.answer)
        else:
            is_answered = how == "stop"
        parts = {"state": float(expected == actual), "answer": float(is_answered)}
        return Grade(float(all(parts.values())), parts, partial_score(expected, actual))


@lru_cache(maxsize=1024)
def _load_case(make: Kind, seed: int, level: int) -> Case:
    return make(Draw(seed, level))


def _opening(case: Case) -> list[str]:
    """What short style shows of a case at first."""
    page = DomPage()
    page.open(case.site.fork())
    view = View(page.observe(), is_short=True, max_chars=MOST_CHARS)
    return [case.short, *(view.text(part) for part in range(view.parts))]
