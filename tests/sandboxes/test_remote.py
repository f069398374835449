"""The sandbox `remote`: what is asked once is done once, and whoever goes away is missed."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sandboxes
from sandboxes import (
    ReplayDiverged,
    Result,
    SandboxBusy,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
    Status,
)
from sandboxes.remote import codec
from sandboxes.remote.provider import Remote
from sandboxes.remote.response_cache import Response, ResponseCache
from tests.support.fake_sandbox import FakeSandbox, drop_answers, serve
from tests.support.sandbox_hosts import ROOT, why_not
from tests.support.sandbox_servers import SECRET, served, wait_until

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_one_is_opened_by_name_and_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(FakeSandbox(), token=SECRET) as server:
        with sandboxes.open("remote", url=server.url, token=f"{SECRET}\n") as sandbox:  # as a file holds it
            assert sandbox.run("1").stdout == "1\n"
        monkeypatch.setenv("TURNWISE_SANDBOX_URL", server.url + "/")
        monkeypatch.setenv("TURNWISE_SANDBOX_TOKEN", SECRET)
        with sandboxes.open("remote:namespaces") as sandbox:
            assert sandbox.isolation == FakeSandbox.isolation
        with pytest.raises(SandboxUnavailable, match=f"{server.url}.* has tier 'namespaces', not 'container'"):
            sandboxes.open("remote:container")


@pytest.mark.parametrize("token", [None, "another-5ecret"])
def test_a_wrong_token_is_refused_and_stands_in_no_error(token: str | None) -> None:
    with serve(FakeSandbox(), token=SECRET) as server:
        with pytest.raises(SandboxUnavailable, match="the token is missing or wrong") as fault:
            Remote(url=server.url, token=token)
        assert server.url in str(fault.value) and "5ecret" not in repr(fault.value)


@pytest.mark.parametrize(
    "url", ["ftp://x", "127.0.0.1:80", "http://", "http://user:pa55@host:1", "http://h:1/?a=b", "http://h:a"]
)
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="url") as fault:
        Remote(url=url)
    assert "pa55" not in str(fault.value)


def test_no_server_is_told_in_one_line_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNWISE_SANDBOX_URL", raising=False)
    with pytest.raises(SandboxUnavailable, match="set TURNWISE_SANDBOX_URL"):
        sandboxes.open("remote")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(SandboxUnavailable, match=f"{url} did not answer within 0.3 s"):
            Remote(url=url, margin_s=0.3)
    with pytest.raises(SandboxUnavailable, match=f"{url} cannot be reached"):
        Remote(url=url, reach_s=0.2)


def test_an_answer_that_is_lost_is_given_again_and_nothing_is_done_twice() -> None:
    sandbox = FakeSandbox()
    with serve(sandbox) as server, drop_answers(server.server_address[1], 3) as (url, cut), Remote(url=url) as remote:
        assert remote.run("1").stdout == "1\n"
        session = remote.session()
        assert session.cell("x").stdout == "1\n"
        assert session.cell("x").stdout == "2\n"
        assert len(cut) == 3
        assert (sandbox.runs, len(sandbox.sessions), sandbox.sessions[0].cells) == (1, 1, ["x", "x"])


def test_a_server_that_always_breaks_off_has_died() -> None:
    sandbox = FakeSandbox()
    with serve(sandbox) as server, drop_answers(server.server_address[1], 99) as (url, cut), Remote(url=url) as remote:
        with pytest.raises(SandboxDied, match=url):
            remote.run("1")
        assert sandbox.runs == 1 and len(cut) > 1


def test_a_second_asking_waits_for_the_first_and_gets_its_answer() -> None:
    answers, begun, go = ResponseCache(), threading.Event(), threading.Event()

    def slow() -> Response:
        begun.set()
        assert go.wait(20)
        return Response(200, b"first")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(answers.get_or_execute, "name", slow)
        assert begun.wait(20)
        second = threads.submit(answers.get_or_execute, "name", lambda: Response(200, b"second"))
        go.set()
        assert (first.result(20), second.result(20)) == (Response(200, b"first"),) * 2


def test_old_answers_are_forgotten_but_not_done_again() -> None:
    answers = ResponseCache(max_bytes=10)
    for name in "abc":
        answers.get_or_execute(name, lambda: Response(200, b"x" * 6))
    assert [answers.get_or_execute(name, lambda: Response(500, b"")) for name in "abc"] == [
        None,
        None,
        Response(200, b"x" * 6),
    ]
    assert answers.get_or_execute("d", lambda: Response(429, b"", was_executed=False)) is not None
    assert answers.get_or_execute("d", lambda: Response(200, b"1")) == Response(200, b"1")  # a refusal is no answer


def test_a_client_waits_for_room_and_then_says_that_there_was_none() -> None:
    sandbox = FakeSandbox()
    with (
        serve(sandbox, places=1, queue=0) as server,
        Remote(url=server.url) as patient,
        Remote(url=server.url, queue_s=0.2) as hasty,
        ThreadPoolExecutor(2) as threads,
    ):
        first = threads.submit(patient.run, "wait")
        assert wait_until(lambda: sandbox.inside == 1)
        second = threads.submit(patient.run, "1")
        with pytest.raises(SandboxBusy, match=f"{server.url} had no room within 0.2 s"):
            hasty.run("1")
        assert not second.done()
        sandbox.go.set()
        assert first.result(20).ok and second.result(20).ok and sandbox.runs == 2


FAULTS = {
    "busy": SandboxBusy("b"),
    "died": SandboxDied("d"),
    "unavailable": SandboxUnavailable("u"),
    "closed": SandboxClosed("c"),
    "diverged": ReplayDiverged("r"),
    "fault": SandboxError("f"),
    "value": ValueError("v"),
    "missing": FileNotFoundError(2, "No such file"),
    "full": OSError(28, "does not fit"),
    "bug": KeyError("k"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_servers_sandbox_arrives_as_what_it_was(name: str) -> None:
    wanted = SandboxError if name == "bug" else type(FAULTS[name])
    with serve(FakeSandbox(**FAULTS)) as server, Remote(url=server.url, queue_s=0.1) as remote:
        with pytest.raises(wanted) as fault:
            remote.run(name)
        assert type(fault.value) is wanted
        assert getattr(fault.value, "errno", None) == getattr(FAULTS[name], "errno", None)
        assert not isinstance(fault.value, SandboxError) or server.url in str(fault.value)
        assert remote.run("1").ok


def test_a_request_too_large_for_the_server_is_not_sent() -> None:
    sandbox = FakeSandbox()
    with serve(sandbox) as server, Remote(url=server.url) as remote:
        with pytest.raises(ValueError, match=r"takes 1 MB at most"):
            remote.run("1", stdin=b"x" * (1 << 20))
        assert remote.run("1").stdout == "1\n"


VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.text(), st.dictionaries(st.text(), st.binary()))
def test_a_result_comes_back_as_it_went(value: object, said: str, files: dict[str, bytes]) -> None:
    sent = Result(Status.OK, 0, None, said, said, files, {said: said}, value, said, 0.1, 0.2, 0.3)
    back = codec.unpack_result(json.loads(json.dumps(codec.pack_result(sent))))
    assert repr(back) == repr(sent)  # as nan is not equal to itself


def test_a_closed_client_says_so_also_to_whoever_waits() -> None:
    sandbox = FakeSandbox()
    with serve(sandbox) as server, ThreadPoolExecutor(1) as threads:
        remote = Remote(url=server.url)
        session = remote.session()
        waiting = threads.submit(remote.run, "wait")
        assert wait_until(lambda: sandbox.inside == 1)
        remote.close()
        for call in (lambda: waiting.result(20), lambda: remote.run("1"), lambda: session.cell("1")):
            with pytest.raises(SandboxClosed, match="closed"):
                call()
        assert sandbox.sessions[0].is_closed.wait(20)
        sandbox.go.set()


def test_a_senseless_deadline_is_not_sent() -> None:
    sandbox = FakeSandbox()
    with serve(sandbox) as server, Remote(url=server.url) as remote, remote.session() as session:
        for call in (remote.run, session.run, session.cell):
            with pytest.raises(ValueError, match="timeout_s = nan"):
                call("1", timeout_s=math.nan)
        assert session.cell("1").ok and sandbox.runs == 0


def test_a_session_lives_as_long_as_its_client_and_no_longer() -> None:
    """One client is killed while another one, which does nothing either, goes on."""
    sandbox = FakeSandbox()
    program = "import sandboxes, sys\nbox = sandboxes.open('remote', url=sys.argv[1])\nprint(box.session().cell('1').ok, flush=True)\nsession = box.session()\nsys.stdin.read()"
    with serve(sandbox, lease_s=9) as server, Remote(url=server.url) as remote:
        idle = remote.session()
        words = [sys.executable, "-c", program, server.url]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
            assert other.stdout and other.stdout.readline() == "True\n"
            assert wait_until(lambda: len(sandbox.sessions) == 3)
            dropped, kept = sandbox.sessions[1:]
            assert dropped.is_closed.wait(60)  # nobody held it any more
            assert not kept.is_closed.is_set() and not sandbox.sessions[0].is_closed.is_set()
            other.kill()
        assert kept.is_closed.wait(20)
        assert idle.alive and idle.cell("1").ok


def test_a_session_whose_lease_was_over_is_told_as_a_fault_of_ours() -> None:
    with serve(FakeSandbox()) as server, Remote(url=server.url) as remote:
        session = remote.session()
        server.service.leases.end(session.id)
        assert session.alive
        remote.renew()
        assert not session.alive
        for _ in range(2):
            with pytest.raises(SandboxDied, match="lease"):
                session.cell("1")
        session.close()


def test_a_forked_process_has_connections_of_its_own() -> None:
    with serve(FakeSandbox()) as server, Remote(url=server.url) as remote:
        assert remote.run("1").ok
        pid = os.fork()
        if not pid:
            os._exit(42 if [remote.run("1").ok for _ in range(3)] == [True] * 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
        assert [remote.run("1").stdout for _ in range(2)] == ["5\n", "6\n"]


def test_a_server_that_was_restarted_between_two_calls_is_not_missed() -> None:
    if reason := why_not("local"):
        pytest.skip(reason)
    with served() as server, Remote(url=server.url, reach_s=20) as remote:
        assert remote.run("print(1)").stdout == "1\n"
        server.end()
        first = remote._client.server
        with served("--port", str(server.port)):
            assert remote.run("print(2)").stdout == "2\n"
            assert (
                first and remote._client.server and remote._client.server != first
            )  # asked again, it is to be this one


@pytest.mark.parametrize("what", ["run", "cell"])
def test_a_server_killed_in_a_call_has_died_and_its_successor_serves(what: str) -> None:
    if reason := why_not("local"):
        pytest.skip(reason)
    with served(token=SECRET) as server, Remote(url=server.url, token=SECRET, reach_s=20) as remote:
        session = remote.session()
        with ThreadPoolExecutor(1) as threads:
            ask = remote.run if what == "run" else session.cell
            call = threads.submit(ask, "import time; time.sleep(60)", timeout_s=60)
            assert wait_until(lambda: bool(remote._client._busy))
            server.end(signal.SIGKILL)
            with pytest.raises(SandboxDied, match=f"{server.url} "):
                call.result(20)
        with served("--port", str(server.port), token=SECRET):
            assert remote.run("print(6 * 7)").stdout == "42\n"
            with pytest.raises(SandboxDied):
                session.cell("1")
            with remote.session() as other:
                assert other.cell("1").stdout == "1\n"


def test_to_open_another_sandbox_loads_no_network() -> None:
    script = "import sandboxes, sandboxes.remote, sys; print([name for name in ('http', 'ssl', 'httpx') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True).stdout == "[]\n"
