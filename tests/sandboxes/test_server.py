"""The HTTP server of a sandbox: who may ask, what it takes, and that nothing which it is sent makes it stumble."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.remote import codec as wire
from sandboxes.remote.server import Server
from tests.support.fake_sandbox import FakeSandbox, serve
from tests.support.sandbox_servers import ROOT, SECRET, post, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(FakeSandbox(bug=KeyError("a bug")), token=SECRET, body_bytes=10_000) as made:
        yield made


def raw(port: int, sent: bytes) -> bytes:
    """All that the server says to these bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire:
        wire.sendall(sent)
        wire.shutdown(socket.SHUT_WR)
        said = b""
        while part := wire.recv(1 << 16):
            said += part
    return said


@pytest.mark.parametrize("token", ["", "wrong", SECRET + "x", SECRET[:-1], "ünï"])
def test_without_the_token_nothing_is_done_and_nothing_is_told(server: Server, token: str) -> None:
    before = server.service.sandbox.runs  # type: ignore[attr-defined]
    header = f"Bearer {token}".encode() if token else b""
    lines = b"POST /v1/run HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 15\r\nAuthorization: " + header
    said = raw(server.server_address[1], lines + b'\r\n\r\n{"program": ""}')
    assert said.startswith(b"HTTP/1.1 401 ") and b"WWW-Authenticate" in said and SECRET.encode() not in said
    assert raw(server.server_address[1], b"GET /v1/sandbox HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 401 ")
    assert server.service.sandbox.runs == before  # type: ignore[attr-defined]


def test_health_needs_no_token_and_says_nothing_else(server: Server) -> None:
    said = raw(server.server_address[1], b"GET /v1/health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200 ") and said.endswith(b'{"status": "ok"}')


def test_a_body_that_is_too_large_is_refused_unread(server: Server) -> None:
    port = server.server_address[1]
    claims = f"Authorization: Bearer {SECRET}\r\nContent-Type: application/json\r\nContent-Length: 10001\r\n\r\n"
    said = raw(port, b"POST /v1/run HTTP/1.1\r\n" + claims.encode())  # nothing of it is sent, and it is not waited for
    assert said.startswith(b"HTTP/1.1 413 ") and b"at most 10000" in said
    assert post(port, "/v1/run", {"program": "x" * 20_000_000})[0] == 413
    assert post(port, "/v1/run", {"program": "x" * 500})[0] == 200


WRONG = {
    "no object": [],
    "a field missing": {},
    "a field too many": {"program": "1", "tomeout_s": 3},
    "a program of numbers": {"program": [1, 2]},
    "an empty command": {"program": []},
    "a program of null": {"program": None},
    "stdin that is no base64": {"program": "1", "stdin": "é"},
    "files in a list": {"program": "1", "files": ["x"]},
    "a file of no base64": {"program": "1", "files": {"x": "*"}},
    "a file of numbers": {"program": "1", "files": {"x": 1}},
    "a fetch of numbers": {"program": "1", "fetch": [1]},
    "an environment of numbers": {"program": "1", "env": {"x": 1}},
    "no deadline": {"program": "1", "timeout_s": None},
    "a deadline of nothing": {"program": "1", "timeout_s": 0},
    "a deadline that is true": {"program": "1", "timeout_s": True},
    "a deadline without end": {"program": "1", "timeout_s": 1e308},
    "a limit that is none": {"program": "1", "limits": {"memory": 1}},
    "a limit of nothing": {"program": "1", "limits": {"files": 0}},
    "a limit in words": {"program": "1", "limits": {"cpu_s": "1"}},
    "half a megabyte": {"program": "1", "limits": {"memory_mb": 0.5}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field_is_named_and_nothing_runs(server: Server, name: str) -> None:
    before = server.service.sandbox.runs  # type: ignore[attr-defined]
    status, said = post(server.server_address[1], "/v1/run", WRONG[name])
    assert (status, said["error"]["kind"]) == (400, "value") and said["error"]["text"]
    assert server.service.sandbox.runs == before  # type: ignore[attr-defined]


GARBAGE = {
    "nothing": b"",
    "a line's end": b"\r\n\r\n",
    "noise": bytes(range(256)),
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no version": b"POST /v1/run\r\n\r\n",
    "a later version": b"GET /v1/health HTTP/3.0\r\n\r\n",
    "an odd version": b"GET /v1/health HTTP/x\r\n\r\n",
    "another method": b"PATCH /v1/run HTTP/1.1\r\n\r\n",
    "a long line": b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
    "many headers": b"GET /v1/health HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    "a header without an end": b"GET /v1/health HTTP/1.1\r\na: " + b"x" * 70_000,
    "no length": b"POST /v1/run HTTP/1.1\r\n\r\n{}",
    "two lengths": b"POST /v1/run HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a negative length": b"POST /v1/run HTTP/1.1\r\nContent-Length: -2\r\n\r\n{}",
    "a length in words": b"POST /v1/run HTTP/1.1\r\nContent-Length: two\r\n\r\n{}",
    "chunks": b"POST /v1/run HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a web page's form": b"POST /v1/run HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "a web page": b"POST /v1/run HTTP/1.1\r\nOrigin: http://x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "a body of GET": b"GET /v1/health HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_without_a_stumble(server: Server, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    said = raw(server.server_address[1], GARBAGE[name])
    assert not said or said.startswith(b"HTTP/1.1 4")
    assert said or name == "nothing" or name.startswith("a line") or name == "a header without an end"
    assert b"Traceback" not in said and not capfd.readouterr().err
    assert post(server.server_address[1], "/v1/run", {"program": "1"})[0] == 200


BODIES = [b"", b"{", b"nul", b"\xff", b"[" * 9000, b'{"program": ' + b"1" * 9000 + b"}", b'{"program": "1"} x']


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_body_that_is_no_object_is_refused(server: Server, body: bytes) -> None:
    assert post(server.server_address[1], "/v1/run", body)[0] == 400


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    "program",
    "stdin",
    "files",
    "fetch",
    "env",
    "timeout_s",
    "limits",
    "source",
    "function",
    "arguments",
    "keywords",
    "path",
    "max_bytes",
    "code",
]
PATHS = [
    "run",
    "sessions",
    "heartbeat",
    "x",
    "sessions/S/cell",
    "sessions/S/call",
    "sessions/S/run",
    "sessions/S/write",
    "sessions/S/read",
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PATHS), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5) | VALUES)
def test_whatever_json_comes_the_answer_is_a_4xx_or_right(server: Server, path: str, said: object) -> None:
    service = server.service
    name = service.leases.add(FakeSandbox().session())
    for place in ("/run_code", "/v1/" + path.replace("S", name)):
        answer = service.handle(place, said) if service.has_path(place) else None
        assert answer is None or answer.status == 200 or 400 <= answer.status < 500, answer
    service.leases.end(name)


WRONG_CALLS: list[tuple[str, dict[str, object]]] = [
    ("call", {"function": "f", "arguments": "[]", "keywords": '{"dict": [["function", 1]]}'}),
    ("call", {"function": "f", "arguments": "[]", "keywords": '{"dict": [["timeout_s", 1]]}'}),
    ("call", {"function": "f", "arguments": "[]", "keywords": '{"dict": [[1, 1]]}'}),
    ("call", {"function": "f", "arguments": "{}", "keywords": '{"dict": []}'}),
    ("call", {"function": "f", "arguments": '[{"list": []}]', "keywords": '{"dict": []}'}),
    ("call", {"function": "f", "arguments": "[" * 5000, "keywords": '{"dict": []}'}),
    ("read", {"path": "x", "max_bytes": 10**30}),
    ("read", {"path": "../x"}),
    ("write", {"path": "/x", "content": ""}),
    ("write", {"path": "x", "content": "é"}),
    ("fork", {"deep": True}),
]


@pytest.mark.parametrize(("what", "said"), WRONG_CALLS, ids=range(len(WRONG_CALLS)))
def test_a_wrong_call_of_a_session_is_the_callers_mistake(server: Server, what: str, said: object) -> None:
    port = server.server_address[1]
    path = f"/v1/sessions/{server.service.leases.add(FakeSandbox().session())}"
    status, told = post(port, f"{path}/{what}", said)
    assert (status, told["error"]["kind"]) == (400, "value")
    assert post(port, f"{path}/cell", {"source": "1"})[0] == 200
    assert post(port, f"{path}/close", {})[0] == 200


def test_the_documented_requests_are_those_that_are_served(server: Server) -> None:
    page = (ROOT / "docs" / "remote_sandboxes.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `POST (\S+)`", page, re.MULTILINE))
    service = server.service
    beneath = {f"/v1/sessions/NAME/{path}" for path in (*service._session_handlers, "fork", "close")}
    assert documented == {*(f"/v1/{path}" for path in service._handlers), *beneath, "/run_code"}
    assert all(map(service.has_path, documented))
    kinds = set(re.findall(r"`([a-z]+)`", page[page.index("Kinds and their statuses") :]))
    assert kinds == set(wire.ERRORS)


def test_paths_that_do_not_exist_are_404(server: Server) -> None:
    for path in ("/", "/v2/run", "/v1", "/v1/sessions/x/y", "/v1/sessions/x", "/v1/sessions/x/y/z", "/v1/%72un"):
        assert post(server.server_address[1], path, {})[0] == 404
    status, said = post(server.server_address[1], "/v1/sessions/x/cell", {"source": "1"})
    assert (status, said["error"]["kind"]) == (404, "gone")


def test_a_bug_of_the_server_is_told_in_a_word(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    status, said = post(server.server_address[1], "/v1/run", {"program": "bug"})
    assert status == 500 and said["error"] == {
        "kind": "fault",
        "text": "an internal fault of the server: KeyError",
        "errno": None,
        "retry_s": None,
    }
    assert capfd.readouterr().err == "/v1/run: KeyError: 'a bug'\n"


def test_more_than_the_queue_holds_is_refused_with_the_time_to_come_back() -> None:
    sandbox = FakeSandbox()
    with serve(sandbox, places=1, queue=1) as server:
        port = server.server_address[1]
        found: list[int] = []

        def ask(program: str) -> None:
            found.append(post(port, "/v1/run", {"program": program})[0])

        calls = [threading.Thread(target=ask, args=(program,)) for program in ("wait", "1")]
        calls[0].start()
        assert wait_until(lambda: sandbox.inside == 1)
        calls[1].start()
        assert wait_until(lambda: server.service._active == 2)
        status, said = post(port, "/v1/run", {"program": "1"})
        assert (status, said["error"]["kind"], said["headers"]["Retry-After"]) == (429, "busy", "1")
        sandbox.go.set()
        for call in calls:
            call.join()
        assert (found, sandbox.runs) == ([200, 200], 2)


def test_sessions_beyond_the_number_are_refused() -> None:
    with serve(FakeSandbox()) as server:
        port = server.server_address[1]
        found = [post(port, "/v1/sessions", {}) for _ in range(9)]
        assert [status for status, _ in found] == [200] * 8 + [429]
        assert post(port, f"/v1/sessions/{found[0][1]['session']}/close", {})[0] == 200
        assert post(port, "/v1/sessions", {})[0] == 200
