"""Evaluation through an API survives kills: of the server, and of the evaluation itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rl.evaluate import __main__ as evaluate
from rl.evaluate.clients import connection
from tests.support.paths import ROOT

SERVER = ROOT / "tests" / "support" / "chat_server.py"


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def server(port: int, log: Path, *words: object) -> Iterator[subprocess.Popen]:
    """The toy server as a process of its own, ready when the block begins."""
    command = [sys.executable, str(SERVER), str(port), str(log), *map(str, words)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        for _ in range(400):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def counted(log: Path) -> tuple[Counter[str], Counter[str]]:
    """How often each request was asked, and how often answered."""
    words = [line.split() for line in log.read_text().splitlines()]
    asked, answered = ([name for kind, name in words if kind == wanted] for wanted in ("asked", "answered"))
    return Counter(asked), Counter(answered)


def given(env: str, port: int, *words: object) -> list[str]:
    spec = f"openai:toy@http://127.0.0.1:{port}/v1"
    flags = ("--env", env, "--policy", spec, "--samples", 2, "--episodes", 15, "--concurrency", 4, *words)
    return [str(word) for word in flags]


def evaluated(cache: Path, words: list[str], result: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The JSON of an evaluation in this process."""
    monkeypatch.setenv("TURNWISE_CACHE", str(cache))
    assert evaluate.main([*words, "--json", str(result)]) == 0
    return result.read_bytes()


@pytest.mark.parametrize("env", ["math/Arithmetic-v0", "games/GuessNumber-v0"])
def test_a_server_that_is_killed_and_restarted_midway_changes_no_byte_of_the_result(
    env: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FIRST_S", 0.05)
    with server(port, tmp_path / "log"):
        undisturbed = evaluated(tmp_path / "one", given(env, port), tmp_path / "one.json", monkeypatch)
    asked, answered = counted(tmp_path / "log")
    assert asked == answered
    assert set(asked.values()) == {1}  # samples of a task are asked for one by one
    assert b'"errors": 0' in undisturbed

    with server(port, tmp_path / "first", "--answers", 12, "--then", "die") as dying:
        stop = threading.Event()

        def restart() -> None:
            dying.wait()
            time.sleep(0.3)
            with server(port, tmp_path / "second"):
                stop.wait()

        restarting = threading.Thread(target=restart)
        restarting.start()
        try:
            disturbed = evaluated(tmp_path / "two", given(env, port), tmp_path / "two.json", monkeypatch)
        finally:
            stop.set()
            restarting.join()
    assert dying.returncode == -9
    assert disturbed == undisturbed
    assert len(counted(tmp_path / "first")[1]) == 11
    assert len(counted(tmp_path / "second")[1]) >= len(asked) - 11


def test_an_evaluation_that_is_killed_and_run_again_repeats_no_request_and_ends_with_the_same_bytes(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = given("games/GuessNumber-v0", port, "--max-tokens", 200)
    with server(port, tmp_path / "log"):
        undisturbed = evaluated(tmp_path / "one", words, tmp_path / "one.json", monkeypatch)
    total = counted(tmp_path / "log")[0].total()

    cache = tmp_path / "two"
    with server(port, tmp_path / "first", "--answers", 20, "--then", "hold"):
        command = (sys.executable, "-m", "rl.evaluate", *words)
        killed = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TURNWISE_CACHE": str(cache)})
        try:
            for _ in range(1200):
                if len(list(cache.rglob("*.json"))) == 20:
                    break
                time.sleep(0.05)
        finally:
            killed.kill()
        assert killed.wait() == -9
    answered_first = counted(tmp_path / "first")[1]
    assert answered_first.total() == 20

    with server(port, tmp_path / "second"):
        again = evaluated(cache, words, tmp_path / "two.json", monkeypatch)
        asked, answered = counted(tmp_path / "second")
        assert again == undisturbed
        assert asked == answered
        assert not asked & answered_first
        assert asked.total() == total - 20

        evaluated(cache, words, tmp_path / "three.json", monkeypatch)
        assert counted(tmp_path / "second")[0].total() == total - 20  # all of it was cached
        evaluated(cache, [*words, "--no-cache"], tmp_path / "four.json", monkeypatch)
        assert counted(tmp_path / "second")[0].total() == 2 * total - 20
    assert (tmp_path / "three.json").read_bytes() == (tmp_path / "four.json").read_bytes() == undisturbed
