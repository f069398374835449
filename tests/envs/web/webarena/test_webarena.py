"""Tasks of a file on a site that another program serves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

import envs
from envs.__main__ import main
from envs.types import assistant
from envs.web.page import BrowserFault

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed")]


class Notes(BaseHTTPRequestHandler):
    """A board of notes, with a log of what was asked for."""

    notes: ClassVar[list[str]] = []
    log: ClassVar[list[str]] = []
    other_port: ClassVar[int] = 0

    def do_GET(self) -> None:
        self.log.append(f"{self.command} {self.path}")
        notes = "".join(f"<li>{note}</li>" for note in self.notes)
        port = self.server.server_address[1]
        pages = {
            "/": f"<h1>Notes</h1><ul>{notes}</ul><a href=/new>New note</a> <a href='http://localhost:{port}/'>Elsewhere</a>",
            "/other": f"<form action='http://127.0.0.1:{self.other_port}/'><button>Over</button></form>"
            "<form action='http://foreign.example/'><button>Out</button></form>",
            "/new": "<form method=post action=/add><label>Text <input name=text></label><button>Add</button></form>",
        }
        pages["/list"] = pages["/"]
        body = f"<title>Notes</title>{pages.get(urlsplit(self.path).path, 'nothing')}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.log.append(f"{self.command} {self.path}")
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if self.path == "/reset":
            self.notes.clear()
            self.send_response(204)
        elif self.path == "/broken":
            self.send_response(500)
        else:
            self.notes.append(form["text"][0])
            self.send_response(303)
            self.send_header("Location", "/list")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    Notes.notes, Notes.log = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Notes)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


EVAL = {
    "eval_types": ["url_match", "program_html", "string_match"],
    "reference_answers": {"must_include": ["milk"]},
    "reference_url": "__NOTES__/list",
    "program_html": [
        {"url": "__NOTES__/", "locator": "document.querySelector('li').outerText", "required_contents": {"exact_match": "milk"}},
        {"url": "last", "locator": "", "required_contents": {"must_include": ["New note"]}},
    ],
}  # fmt: skip


@pytest.fixture
def env(site: str, tmp_path) -> Iterator[Any]:
    task = {"task_id": 1, "intent": "Add a note: milk.", "start_url": "__NOTES__/", "eval": EVAL, "split": "test"}
    (tmp_path / "notes.json").write_text(json.dumps([task]))
    arguments = {"urls": {"__NOTES__": site}, "reset_url": f"{site}/reset"}
    env = envs.make(f"webarena:{tmp_path / 'notes.json'}", **arguments).unwrapped
    yield env
    env.close()


def act(env: Any, name: str, **arguments: Any) -> Any:
    label = arguments.pop("label", None)
    if label:
        arguments["element"] = next(each.index for each in env.snapshot.elements() if each.name == label)
    return env.step(assistant(tool_calls=[(name, arguments)]))


def write(env: Any, text: str) -> None:
    act(env, "click", label="New note")
    act(env, "type", label="Text", text=text)
    act(env, "click", label="Add")


def test_the_answer_the_address_and_the_pages_count(env, site):
    for text, answer, rewards in (
        ("milk", "I added milk", {"answer": 1.0, "url": 1.0, "pages": 1.0}),
        ("tea", "I added milk", {"answer": 1.0, "url": 1.0, "pages": 0.0}),
        ("milk", "done", {"answer": 0.0, "url": 1.0, "pages": 1.0}),
    ):
        (opening,), _ = env.reset(seed=0, options={"split": "test", "index": 0})
        assert f"at {site}/:" in opening["content"] and "Goal: Add a note: milk." in opening["content"]
        write(env, text)
        _, reward, terminated, _, info = act(env, "answer", text=answer)
        assert terminated and info["rewards"] == rewards and reward == float(all(rewards.values()))


def test_an_episode_on_the_wrong_page_or_without_work_earns_nothing(env):
    env.reset(seed=0, options={"split": "test", "index": 0})
    write(env, "milk")
    act(env, "click", label="New note")
    _, reward, _, _, info = act(env, "answer", text="milk")
    assert reward == 0.0 and info["rewards"] == {"answer": 1.0, "url": 0.0, "pages": 0.0}
    env.reset(seed=0, options={"split": "test", "index": 0})
    assert act(env, "report_impossible")[1] == 0.0 and Notes.notes == []


def test_only_the_hosts_of_the_tasks_can_be_reached(env):
    env.reset(seed=0, options={"split": "test", "index": 0})
    (message,), *_ = act(env, "click", label="Elsewhere")
    assert "leads out of this site" in message["content"]
    script = "fetch('http://localhost:' + location.port + '/x').then(() => 'reached', () => 'unknown')"
    assert env.page._host.call(env.page._live_tabs.page.evaluate, script, deadline_s=5) == "unknown"
    assert "GET /x" not in Notes.log


def test_a_site_that_does_not_answer_is_a_fault_and_leaves_the_browser_alone(env, tmp_path):
    env.reset(seed=0, options={"split": "test", "index": 0})
    browser = env.page._host._browser
    other = envs.make(f"webarena:{tmp_path / 'notes.json'}", urls={"__NOTES__": "http://127.0.0.1:1"}).unwrapped
    with pytest.raises(BrowserFault, match="the first page cannot be shown"):
        other.reset(seed=0, options={"split": "test", "index": 0})
    other.close()
    assert env.page._host._browser is browser
    act(env, "click", label="New note")
    assert env.snapshot.url.endswith("/new")


def test_a_form_may_lead_to_another_host_of_the_tasks_and_to_no_other(site, tmp_path):
    second = ThreadingHTTPServer(("127.0.0.1", 0), Notes)
    threading.Thread(target=second.serve_forever, daemon=True).start()
    Notes.other_port = second.server_address[1]
    tasks = [
        {"task_id": place, "intent": "Look.", "start_url": url, "eval": {**EVAL, "eval_types": ["string_match"]}}
        for place, url in enumerate((f"{site}/other", f"http://127.0.0.1:{Notes.other_port}/"))
    ]
    (tmp_path / "two.json").write_text(json.dumps([{**task, "split": "test"} for task in tasks]))
    env = envs.make(f"webarena:{tmp_path / 'two.json'}").unwrapped
    try:
        env.reset(seed=0, options={"split": "test", "index": 0})
        (message,), *_ = act(env, "click", label="Out")
        assert "the address 'http://foreign.example/' leads out of this site" in message["content"]
        act(env, "click", label="Over")
        assert env.snapshot.url == f"http://127.0.0.1:{Notes.other_port}/?"
    finally:
        env.close()
        second.shutdown()
        second.server_close()


@pytest.mark.parametrize(
    ("start", "arguments", "words"),
    [
        (
            "http://127.0.0.1:1",
            [],
            "the first page cannot be shown: Page.goto: net::ERR_UNSAFE_PORT at http://127.0.0.1:1/; ",
        ),
        ("", ["--env-arg", "reset_url=__NOTES__/broken"], "/broken did not reset the site: HTTP Error 500"),
    ],
)
def test_playing_on_a_site_that_is_not_there_ends_with_one_line(start, arguments, words, site, tmp_path, capsys):
    judgement = {"eval_types": ["string_match"], "reference_answers": {"exact_match": "a"}}
    task = {"task_id": 1, "intent": "Look.", "start_url": f"{start or site}/", "eval": judgement, "split": "test"}
    (tmp_path / "notes.json").write_text(json.dumps([task]))
    arguments = [each.replace("__NOTES__", site) for each in arguments]
    assert main(["play", f"webarena:{tmp_path / 'notes.json'}", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m envs play: ") and words in line and "['" not in line
