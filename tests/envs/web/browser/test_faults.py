"""What kills or blocks a browser or a page: the page's own doing is the policy's turn, anything else is a fault."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import envs
from envs.web.page import BrowserFault, PageError, PageHung
from tests.support.pages import Pages, click, texts

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed")]
GO = "<button id=b>Go</button><p>here</p><script>b.onclick = () => { %s }</script>"


@pytest.fixture
def page() -> Iterator:
    from envs.web.browser import ChromiumPage

    page = ChromiumPage()
    yield page
    page.close()


def processes(page, kind: str) -> list[int]:
    """The ids of the browser's processes of a kind."""

    async def ask():
        session = await page._host._browser.new_browser_cdp_session()
        info = await session.send("SystemInfo.getProcessInfo")
        await session.detach()
        return [process["id"] for process in info["processInfo"] if process["type"] == kind]

    return page._host.call(ask, deadline_s=5)


@pytest.mark.parametrize(
    "script", ["while (true) {}", "for (;;) alert('again')", "f(); async function f() { for (;;) await 0 }"]
)
def test_a_page_that_hangs_is_loaded_again_and_the_policy_told(page, script, monkeypatch):
    monkeypatch.setattr("envs.web.browser.chromium_page.ACTION_S", 1.5)
    page.open(Pages({"/": GO % script}))
    restarts = page._host.restarts
    with pytest.raises(PageHung, match="loaded again"):
        click(page, "Go")
    assert texts(page) == ["here"]
    with pytest.raises(PageHung):
        click(page, "Go")
    assert texts(page) == ["here"] and page._host.restarts == restarts


def test_a_page_that_hangs_while_it_loads_is_left_empty(page, monkeypatch):
    monkeypatch.setattr("envs.web.browser.chromium_page.ACTION_S", 1.5)
    page.open(Pages({"/": "<a href=/bad>Bad</a>", "/bad": "<script>while (true) {}</script>"}))
    with pytest.raises(PageHung):
        click(page, "Bad")
    assert page.observe().elements() == ()
    page.open(Pages({"/": "<p>next</p>"}))
    assert texts(page) == ["next"]


def test_memory_is_bounded(page, monkeypatch):
    monkeypatch.setattr("envs.web.browser.host.MEMORY_LIMIT", 400_000_000)
    page.open(Pages({"/": GO % "window.a = []; for (let i = 0; i < 100; i++) a.push(new Uint8Array(2e7).fill(1))"}))
    with pytest.raises(PageHung, match="memory"):
        click(page, "Go")
    assert texts(page) == ["here"]


@pytest.mark.parametrize(
    "script",
    [
        "fetch('http://127.0.0.1:%d/').then(r => r.text()).then(t => b.textContent = 'LEAK')",
        "fetch('http://localhost:%d/', {mode: 'no-cors'}).then(() => b.textContent = 'LEAK')",
        "location.href = 'http://127.0.0.1:%d/'",
        "const i = new Image(); i.src = 'http://127.0.0.1:%d/x.png'",
        "navigator.sendBeacon('http://127.0.0.1:%d/')",
        "new WebSocket('ws://127.0.0.1:%d/')",
        "location.href = 'file:///etc/passwd'",
        "location.href = 'http://example.com:%d/'",
    ],
)
def test_nothing_but_the_site_can_be_reached(page, script):
    """Other services of the machine neither, such as a model's endpoint."""
    calls: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            calls.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        do_POST = do_GET

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page.open(Pages({"/": GO % (script.replace("%d", str(server.server_address[1])))}))
        try:
            click(page, "Go")
        except PageError as error:
            assert "cannot be opened" in str(error)
        assert page.observe().url == "/" and "LEAK" not in str(page.observe()) and "root:" not in str(page.observe())
    finally:
        server.shutdown()
        server.server_close()
    assert calls == []


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("document.documentElement.remove()", []),
        ("document.body.innerHTML = ''; document.title = ''", []),
        ("print(); history.pushState({}, '', '/x')", ["here"]),
        ("confirm('sure?') && (b.textContent = 'yes'); prompt('why?')", ["here"]),
        ("location.href = 'mailto:a@b.c'", ["here"]),
        ("location.href = 'data:text/html,hi'", ["here"]),
        ("const a = document.createElement('a'); a.href = URL.createObjectURL(new Blob(['x'])); a.download = 'x'; a.click()", ["here"]),
        ("navigator.geolocation.getCurrentPosition(() => 0); Notification.requestPermission()", ["here"]),
        ("JSON.stringify = () => '{}'; Array.prototype.push = () => { throw 1 }", None),
    ],
)  # fmt: skip
def test_pages_may_do_as_they_like(page, script, expected):
    page.open(Pages({"/": GO % script}))
    try:
        click(page, "Go")
        if expected is not None:
            assert texts(page) == expected
        page.observe()
    except (PageError, PageHung):
        page.observe()
    page.open(Pages({"/": "<p>next</p>"}))
    assert texts(page) == ["next"]


def test_a_page_that_closes_itself_is_opened_again(page):
    page.open(Pages({"/": GO % "window.open('', '_self'); window.close()"}))
    try:
        click(page, "Go")
    except PageHung as error:
        assert "closed itself" in str(error)
    assert texts(page) == ["here"]


@pytest.mark.parametrize("kind", ["renderer", "browser", "driver"])
def test_a_killed_process_is_a_fault_and_the_next_episode_works(page, kind):
    page.open(Pages({"/": GO % "0"}))
    page.observe()
    pids = [driver_of(os.getpid())] if kind == "driver" else processes(page, kind)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(BrowserFault):
        for _ in range(20):
            click(page, "Go")
    page.open(Pages({"/": "<p>next</p>"}))
    assert texts(page) == ["next"]


def test_episodes_survive_random_kills_and_none_is_scored_wrongly():
    """An episode that the browser's death ends is played again, as a run does it; what is played to its end is right."""
    env: Any = envs.make("web/Widgets-v0", engine="chromium").unwrapped
    draw, faults = random.Random(0), 0
    for number in range(30):
        for attempt in range(4):
            try:
                env.reset(seed=number, options={"split": "test", "index": number})
                victim = draw.choice(["renderer", "browser", None, None]) if attempt < 2 else None
                for reply in env.oracle():
                    if victim:
                        for pid in processes(env.page, victim):
                            os.kill(pid, signal.SIGKILL)
                        victim = None
                    _, reward, terminated, truncated, info = env.step(reply)
                    if terminated or truncated:
                        break
                assert reward == 1.0 and info["success"]
                break
            except BrowserFault:
                faults += 1
        else:
            pytest.fail("an episode was lost")
    assert faults > 5
    env.close()


def test_nothing_is_left_of_a_killed_program(tmp_path: Path):
    code = """
import os, sys, time
from envs.web.browser import ChromiumPage
from tests.support.pages import Pages
page = ChromiumPage()
page.open(Pages({"/": "<p>x</p>"}))
page.observe()
print("ready", flush=True)
time.sleep(60)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    family = descendants(driver_of(child.pid))
    assert len(family) > 2 and any("playwright" in name for name in os.listdir(tmp_path))
    child.kill()
    child.wait()
    end = time.monotonic() + 10
    while time.monotonic() < end and any(is_alive(pid) for pid in family):
        time.sleep(0.05)
    assert not [pid for pid in family if is_alive(pid)]
    assert not [name for name in os.listdir(tmp_path) if "playwright" in name]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_a_signal_ends_leaves_no_folder(number: signal.Signals, tmp_path: Path):
    code = """
import time
from envs.web.browser import ChromiumPage
from rl.cli import run
from tests.support.pages import Pages

def main():
    page = ChromiumPage()
    page.open(Pages({"/": "<p>x</p>"}))
    page.observe()
    print("ready", flush=True)
    while True:
        time.sleep(0.05)

run(main)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert any(name.startswith("turnwise-browser-") for name in os.listdir(tmp_path))
    child.send_signal(number)
    assert child.wait(30) == 128 + number
    assert os.listdir(tmp_path) == []


def driver_of(pid: int) -> int:
    """The process of Playwright's driver that the process `pid` has started."""
    (driver,) = [
        each
        for each in descendants(pid)
        if b"run-driver" in Path(f"/proc/{each}/cmdline").read_bytes() and is_alive(each)
    ]
    return driver


def descendants(pid: int) -> list[int]:
    found, parents = [pid], {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
    for each in found:
        found += [child for child, parent in parents.items() if parent == each and child not in found]
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_several_threads_share_the_browser():
    results: list[float] = []

    def play(number: int) -> None:
        env: Any = envs.make("web/Widgets-v0", engine="chromium").unwrapped
        for index in (number, number + 10):
            env.reset(seed=0, options={"split": "test", "index": index})
            for reply in env.oracle():
                reward, *ends = env.step(reply)[1:4]
                if any(ends):
                    break
            results.append(reward)
        env.close()

    threads = [threading.Thread(target=play, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert results == [1.0] * 8


def test_a_browser_writes_into_a_folder_of_its_own_which_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Chromium leaves the files behind that it is making when it ends."""
    from envs.web.browser import ChromiumPage

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page = ChromiumPage()
    page.open(Pages({"/": "<p>x</p>"}))
    (folder,) = tmp_path.iterdir()
    (folder / ".org.chromium.Chromium.left").touch()
    page.close()
    assert list(tmp_path.iterdir()) == []
