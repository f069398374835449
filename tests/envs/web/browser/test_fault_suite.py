"""Many episodes in which a page or a process goes wrong: none hangs, is lost or scored wrongly, and nothing is left.

    TURNWISE_FAULT_EPISODES=500 python -m pytest -m browser tests/envs/web/browser/test_fault_suite.py

By default there are 20. In each a button of the page springs a trap, or a process is killed, within a script that
earns 1 (even numbers) or one that just misses and earns 0 (odd numbers). An episode that a fault ends is played again,
as a run does it. All episodes share a browser, so a kill ends those beside it as well; it is lost if it ends as often as
a run tries without that anything was killed meanwhile.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from envs.types import assistant, text
from envs.web import page_task
from envs.web.browser import ChromiumPage
from envs.web.page import BrowserFault
from envs.web.script import call_of, element_of
from envs.web.site import Request, Response
from tests.envs.web.browser.test_faults import descendants, is_alive
from tests.support.web_scripts import make

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed"), pytest.mark.timeout(7200)]
EPISODES = int(os.environ.get("TURNWISE_FAULT_EPISODES", "20"))
WORKERS, KILLS, LONGEST_S = 3, 2, 180.0  # KILLS: of an episode, which then plays without
ATTEMPTS = 1 + 3  # as `rl.rollout.Runner` has them
TRAPS = {
    "loop": "while (true) {}",
    "alerts": "for (;;) alert('again')",
    "popups": "for (let i = 0; i < 12; i++) window.open('/')",
    "download": "const l = document.createElement('a'); l.href = 'data:application/zip;base64,UEs='; l.download = 'x.zip'; l.click()",
    "blocked host": "location.href = 'http://example.com/'",
    "2 GB": "window.hog = []; for (let i = 0; i < 100; i++) hog.push(new Uint8Array(2e7).fill(1))",
    "closes itself": "window.open('', '_self'); window.close()",
    "empties itself": "document.documentElement.remove()",
    "kill renderer": "",
    "kill browser": "",
}  # fmt: skip
NAMES = list(TRAPS)
TRAP = "Spring the trap"


class TrapSite:
    """A site whose pages have a button that does harm."""

    def __init__(self, site: Any, script: str) -> None:
        self.site, self.start, self.script = site, site.start, script

    def respond(self, request: Request) -> Response:
        response = self.site.respond(request)
        if response.location or response.body:
            return response
        trap = f"<button type=button id=trap>{TRAP}</button><script>trap.onclick = () => {{ {self.script} }}</script>"
        return Response(response.html + trap, status=response.status)


class TrapPage(ChromiumPage):
    script = ""
    kills: ClassVar[list[int]] = []  # processes, by all pages

    def open(self, site: Any) -> None:
        super().open(TrapSite(site, self.script))


def run_episode(env: Any, number: int, name: str, draw: random.Random) -> float:
    """Play a script with a trap in its middle; the reward."""
    env.page = env.page or TrapPage()
    env.page.script = TRAPS[name]
    env.reset(seed=number, options={"split": "test", "index": number % len(env.load("test"))})
    steps = list(env.case.steps if number % 2 == 0 else next(iter(env.case.misses.values())))
    trap_place = draw.choice((0, len(steps) - 1))  # what a reload takes from a form half filled in is the policy's loss
    if name == "empties itself":
        trap_place = len(steps) - 1
    if name.startswith("kill "):
        trap_place = draw.randrange(len(steps))
    for place, step in enumerate(steps):
        if place == trap_place:
            if name.startswith("kill "):
                kill(env.page, name.removeprefix("kill "))
            else:
                index = next(each.index for each in env.snapshot.elements() if each.name == TRAP)
                env.step(assistant(tool_calls=[("click", {"element": index})]))
                if env.snapshot.tab:  # of popups
                    env.step(assistant(tool_calls=[("switch_tab", {"tab": 0})]))
        result = act(env, step)
        if result[2] or result[3]:
            return result[1]
    raise AssertionError("the script does not end the episode")


def act(env: Any, step: Any) -> Any:
    """Make a step of a script, again if the page was slow: its reloading is told to the policy."""
    for _ in range(3):
        index = None
        if step.act in ("click", "type", "select"):
            index = element_of(env.snapshot, step).index
        result = env.step(assistant(tool_calls=[call_of(step, index)]))
        if result[2] or result[3] or not any("loaded again" in text(message) for message in result[0]):
            return result
    return result


def kill(page: Any, kind: str) -> None:
    async def ask() -> list[int]:
        session = await page._host._browser.new_browser_cdp_session()
        info = await session.send("SystemInfo.getProcessInfo")
        await session.detach()
        return [process["id"] for process in info["processInfo"] if process["type"] == kind]

    try:
        pids = page._host.call(ask, deadline_s=5)
    except Exception as error:  # the browser is gone already: another episode has killed it
        raise BrowserFault(str(error)) from error
    page.kills += pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of all temporary files, with a limit of memory that this machine can bear, and short deadlines."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("envs.web.browser.chromium_page.ACTION_S", 4.0)
    monkeypatch.setattr("envs.web.browser.host.MEMORY_LIMIT", 600_000_000)
    monkeypatch.setattr(page_task, "open_engine", lambda *_: TrapPage())
    yield tmp_path


def test_no_episode_hangs_is_lost_or_scored_wrongly_and_nothing_is_left(own_folder: Path) -> None:
    before = set(descendants(os.getpid()))
    numbers, lock = iter(range(EPISODES)), threading.Lock()
    wrong: list[str] = []
    faults: Counter[str] = Counter()
    longest = [0.0]

    def work() -> None:
        env: Any = make("web/Widgets-v0", engine="chromium")
        while (number := next_number()) is not None:
            name, draw, start = NAMES[number // 2 % len(NAMES)], random.Random(number), time.monotonic()
            causes: list[str] = []
            failures = 0
            while failures < ATTEMPTS:
                try:
                    num_kills = len(TrapPage.kills)
                    trap = name if len(causes) < KILLS or not name.startswith("kill ") else "download"
                    reward = run_episode(env, number, trap, draw)
                    if reward != float(number % 2 == 0):
                        wrong.append(f"{number} {name}: {reward}")
                    break
                except BrowserFault as error:
                    faults[name] += 1
                    failures += len(TrapPage.kills) == num_kills
                    causes.append(str(error))
                except Exception as error:
                    wrong.append(f"{number} {name}: {type(error).__name__}: {error}")
                    break
            else:
                wrong.append(f"{number} {name}: lost to {causes}")
            longest[0] = max(longest[0], time.monotonic() - start)
        env.close()

    def next_number() -> int | None:
        with lock:
            return next(numbers, None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60 + EPISODES * LONGEST_S / WORKERS)
    print(f"{EPISODES} episodes, faults that were played again: {dict(faults)}, the longest took {longest[0]:.0f} s")
    assert not [thread for thread in threads if thread.is_alive()]
    assert not wrong
    assert faults["kill browser"]  # a renderer that is killed behind the last step costs nothing
    end = time.monotonic() + 10
    while time.monotonic() < end and leftover(before):
        time.sleep(0.1)
    assert not leftover(before)
    assert not list(own_folder.iterdir())


def leftover(before: set[int]) -> list[int]:
    return [pid for pid in descendants(os.getpid()) if pid not in before and is_alive(pid)]
