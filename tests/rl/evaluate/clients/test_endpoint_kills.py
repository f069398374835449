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
    """Run the toy server in a process of its own, which is ready when the block begins."""
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


def count_log(log: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how often each request was received, and how often it was answered."""
    words = [line.split() for line in log.read_text().splitlines()]
    requests, answers = ([name for kind, name in words if kind == label] for label in ("asked", "answered"))
    return Counter(requests), Counter(answers)


def flags_for(env: str, port: int, *words: object) -> list[str]:
    spec = f"openai:toy@http://127.0.0.1:{port}/v1"
    flags = ("--env", env, "--policy", spec, "--samples", 2, "--episodes", 15, "--concurrency", 4, *words)
    return [str(word) for word in flags]


def evaluate_to_json(cache: Path, words: list[str], result: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Evaluate in this process and return the JSON of the report."""
    monkeypatch.setenv("TURNWISE_CACHE", str(cache))
    assert evaluate.main([*words, "--json", str(result)]) == 0
    return result.read_bytes()


@pytest.mark.parametrize("env", ["math/Arithmetic-v0", "games/GuessNumber-v0"])
def test_a_server_that_is_killed_and_restarted_midway_changes_no_byte_of_the_result(
    env: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MIN_BACKOFF_S", 0.05)
    with server(port, tmp_path / "log"):
        expected = evaluate_to_json(tmp_path / "one", flags_for(env, port), tmp_path / "one.json", monkeypatch)
    requests, answers = count_log(tmp_path / "log")
    assert requests == answers
    assert set(requests.values()) == {1}  # samples of a task are asked for one by one
    assert b'"errors": 0' in expected

    with server(port, tmp_path / "first", "--answers", 12, "--then", "die") as first_server:
        stop = threading.Event()

        def restart() -> None:
            first_server.wait()
            time.sleep(0.3)
            with server(port, tmp_path / "second"):
                stop.wait()

        restarting = threading.Thread(target=restart)
        restarting.start()
        try:
            result = evaluate_to_json(tmp_path / "two", flags_for(env, port), tmp_path / "two.json", monkeypatch)
        finally:
            stop.set()
            first_server.kill()  # it lives still if the evaluation failed early
            restarting.join()
    assert first_server.returncode == -9
    assert result == expected
    assert len(count_log(tmp_path / "first")[1]) == 11
    assert len(count_log(tmp_path / "second")[1]) >= len(requests) - 11


def test_an_evaluation_that_is_killed_and_run_again_repeats_no_request_and_ends_with_the_same_bytes(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = flags_for("games/GuessNumber-v0", port, "--max-tokens", 200)
    with server(port, tmp_path / "log"):
        expected = evaluate_to_json(tmp_path / "one", words, tmp_path / "one.json", monkeypatch)
    total = count_log(tmp_path / "log")[0].total()

    cache = tmp_path / "two"
    with server(port, tmp_path / "first", "--answers", 20, "--then", "hold"):
        command = (sys.executable, "-m", "rl.evaluate", *words)
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TURNWISE_CACHE": str(cache)})
        try:
            for _ in range(1200):
                if len(list(cache.rglob("*.json"))) == 20:
                    break
                time.sleep(0.05)
        finally:
            process.kill()
        assert process.wait() == -9
    first_answers = count_log(tmp_path / "first")[1]
    assert first_answers.total() == 20

    with server(port, tmp_path / "second"):
        again = evaluate_to_json(cache, words, tmp_path / "two.json", monkeypatch)
        requests, answers = count_log(tmp_path / "second")
        assert again == expected
        assert requests == answers
        assert not requests & first_answers
        assert requests.total() == total - 20

        evaluate_to_json(cache, words, tmp_path / "three.json", monkeypatch)
        assert count_log(tmp_path / "second")[0].total() == total - 20  # all of it was cached
        evaluate_to_json(cache, [*words, "--no-cache"], tmp_path / "four.json", monkeypatch)
        assert count_log(tmp_path / "second")[0].total() == 2 * total - 20
    assert (tmp_path / "three.json").read_bytes() == (tmp_path / "four.json").read_bytes() == expected
