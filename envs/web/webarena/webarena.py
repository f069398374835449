"""Tasks on a site of one's own, from a file: `webarena:FILE`."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from envs.data import NoSplit
from envs.episodes.guide import Guide
from envs.types import Message, Messages, Outcome, Task, ToolError
from envs.web.page import BrowserFault
from envs.web.page_task import PageTask
from envs.web.site import LiveSite
from envs.web.webarena import judgement as judge
from envs.web.webarena.task_file import WebTask, check_hosts, origins, reachable, read_tasks, split_of
from envs.web.wording import INVALID, REPLY, RULES

RESET_S = 120.0


class WebArena(PageTask):
    """Do a task on a site that you serve, and that a file as those of WebArena describes.

    Observation: the intent and the first page as text, then after each reply the page again, as `web/Shop-v0` shows
    pages; the whole address stands above. `view=screenshot` and `view=marks` add pictures.
    Action: calls of the tools of `web/Shop-v0`, native or as JSON on the last line.
    Reward: at the end, the product of the parts that the task's `eval` names, each 0 or 1: `answer` (string_match),
    `url` (url_match) and `pages` (program_html). An episode that runs out of replies is judged as it is then.
    Episode end: terminated by stop, answer or report_impossible (the answer "N/A"); truncated after 30 turns.
    Hosts: the browser reaches what the tasks name and nothing else. Addresses must be on the loopback interface, or at
    `hosts`. The state of the site is yours: `reset_url` is asked for before each episode (POST), with the task's id as
    `task`; without it, what one episode does is there for the next, and for those that are played beside it.
    Splits: a task's `split`; if none has one, half of the file is "train", a quarter each "val" and "test".
    State: the page as it stands.

    Args:
        name: The file: a JSON list of tasks with `intent`, `start_url` and `eval`, or an object a line.
        urls: Addresses for the placeholders of the file: `{"__SHOPPING__": "http://127.0.0.1:7770"}`.
        hosts: Other hosts than this machine that may be reached, with or without a port.
        reset_url: Asked for before each episode; "" for none.
        skip_unsupported: Whether to leave out tasks that cannot be judged here instead of refusing the file.
        view: "text", "screenshot" or "marks".
        picture_width: Width of a picture in pixels; None for that of the viewport, 800.
        points: How points of a picture are given: "pixels" or "thousandths" of its size.
        max_chars: Characters of a page that are shown at once, about; None for 6,000, in short style 1,500.
        browser: Path of the browser's program; None to look for one.
        headed: Whether the browser shows its window.
        **limits: Arguments of `Env`.

    Raises:
        ValueError: The file is none, a task cannot be judged here, or an address is at another host.
    """

    max_turns = 30
    blocking = True

    def __init__(
        self,
        name: str,
        /,
        *,
        urls: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (),
        reset_url: str = "",
        skip_unsupported: bool = False,
        view: Literal["text", "screenshot", "marks"] = "text",
        picture_width: int | None = None,
        points: Literal["pixels", "thousandths"] = "pixels",
        max_chars: int | None = None,
        browser: str | None = None,
        headed: bool = False,
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        self.use_pictures(view, picture_width, points)
        self.use_browser(browser, headed, max_chars)
        self.name, self.hosts, self.reset_url = name, (hosts,) if isinstance(hosts, str) else tuple(hosts), reset_url
        places = tuple(sorted((urls or {}).items()))
        self.web_tasks = {task.id: task for task in read_tasks(Path(name).expanduser(), places, skip_unsupported)}
        check_hosts(self.web_tasks.values(), self.hosts)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split. Raises NoSplit for a file that has none for it."""
        tasks = split_of(list(self.web_tasks.values()), split)
        if not tasks:
            raise NoSplit(f"{self.name} has {len(self.web_tasks)} tasks, none of them for the split {split!r}")
        return [Task(f"{split}/{task.id}", metadata={"task": task.id}) for task in tasks]

    def start(self) -> Messages:
        """Reset the site, if it can be, and show the intent and the first page."""
        task = self._web_task
        if self.reset_url:
            self._reset_site(task.id)
        tasks = self.web_tasks.values()
        page = self.engine_page(reachable(tasks, self.hosts))
        page.open(LiveSite(task.start, origins(tasks, self.hosts), task.storage))  # type: ignore[arg-type]
        self.begin(page)
        return (self.page_message(task.intent if self.style == "short" else f"Goal: {task.intent}"),)

    def guide(self) -> Guide:
        """Say how pages are shown, and which tools there are."""
        return Guide(
            goal="Do what the goal asks for on a site. You succeed if the site and your answer are then as it says.",
            rules=RULES + self.point_rules(),
            reply=REPLY,
            thinking="You may think first; put your calls at the end of your reply.",
            example='{"name": "scroll", "arguments": {"direction": "down"}}',
            ending="The episode ends when you call stop, answer or report_impossible.",
            invalid=INVALID,
            heading="The goal, and the first page:",
        )

    def state(self) -> str:
        """The page as it stands; what the site knows besides is not known here."""
        return f"{self.task.id} {self.part} {self.closing} {self.snapshot!r}"

    def oracle(self) -> Iterator[Message]:
        """Files have no oracle. Raises NotImplementedError."""
        raise NotImplementedError(f"{self.name} has no oracle; train it with --cold-start 0")

    @property
    def _web_task(self) -> WebTask:
        return self.web_tasks[self.task.metadata["task"]]

    def verdict(self, messages: Messages, *, is_over: bool) -> Outcome:
        """Judge the answer, the address and the pages that the task names."""
        judgement = self._web_task.judgement
        how, text = self.closing or ("stop", "")
        parts: dict[str, float] = {}
        if judgement.answer is not None:
            words = judge.NOT_POSSIBLE if how == "impossible" else text
            parts["answer"] = float(judge.answer_fits(judgement.answer, words))
        if judgement.urls:
            parts["url"] = float(judge.url_fits(judgement.urls, self.snapshot.url))
        if judgement.targets:
            parts["pages"] = float(all(map(self._holds, judgement.targets)))
        success = all(parts.values())
        return Outcome(messages, float(success), is_over, success, rewards=parts)

    def _holds(self, target: judge.Target) -> bool:
        page: Any = self._live_page
        try:
            return judge.page_fits(
                target.contents, page.inspect("" if target.url == judge.LAST else target.url, target.locator)
            )
        except ToolError:  # the page hangs
            return False

    def _reset_site(self, id: str) -> None:
        """Ask for `reset_url`. Raises BrowserFault, an infrastructure fault, if the site does not answer well."""
        request = urllib.request.Request(self.reset_url, data=f"task={id}".encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=RESET_S):
                return
        except OSError as error:
            raise BrowserFault(
                f"{self.reset_url} did not reset the site: {error}; see what it logs, or leave `reset_url` out"
            ) from None
