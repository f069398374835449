"""An episode on a page: which engine shows it, what follows a reply, and when it is judged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from envs.types import Messages, Outcome
from envs.web.engines import check_browser, open_engine
from envs.web.page import Page
from envs.web.page_tools import PageTools

MAX_CHARS = {"full": 6000, "short": 1500}
LEAST_CHARS = 200


class PageTask(PageTools):
    """A task on a page, judged once it is closed or its replies run out.

    Attributes:
        parts: The named parts of the reward, 0 until it is judged.
    """

    stops_at_error = True  # what comes after a call was meant for the page that the call leaves
    parts: ClassVar[Sequence[str]] = ()
    engine: str = "chromium"
    browser: str | None
    headed: bool

    def use_browser(self, browser: str | None, headed: bool, max_chars: int | None) -> None:
        """Keep the arguments of what shows the page. Raises ValueError for those that cannot be."""
        check_browser(self.engine, browser, headed)
        if max_chars is not None and max_chars < LEAST_CHARS:
            raise ValueError(f"max_chars {max_chars!r} is below {LEAST_CHARS}, too little for a page")
        self.browser, self.headed = browser, headed
        self.max_chars = max_chars or MAX_CHARS["short" if self.style == "short" else "full"]

    def engine_page(self, reachable: tuple[str, ...] = ()) -> Page:
        """Return the page of the last episode, or that of a new engine, which can reach these hosts with ports."""
        if self.page is not None:
            return self.page
        return open_engine(self.engine, self.pictures, self.browser, self.picture_size, self.headed, reachable)

    @abstractmethod
    def verdict(self, messages: Messages, *, is_over: bool) -> Outcome:
        """Judge the episode as it stands; `is_over` is whether a call or the page has ended it."""

    def answer(self, reply: str) -> Outcome:
        """Refuse a reply without a call."""
        return self._go_on((self.refusal_message(),), valid=False)

    def after_calls(self, results: Messages) -> Outcome:
        """Show the page below the last result, or judge the episode once it is closed."""
        if self.closing is not None:
            return self.verdict((), is_over=True)
        return self._go_on(self.shown_results(results))

    def _go_on(self, messages: Messages, *, valid: bool = True) -> Outcome:
        if self.turns + 1 < self.max_turns:
            return Outcome(messages, valid=valid, rewards=dict.fromkeys(self.parts, 0.0))
        outcome = self.verdict(messages, is_over=False)
        outcome.valid = valid
        return outcome
