"""A run with `--engines` plays what a run without plays, whatever is killed, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rl.evaluate.__main__ import main as evaluate
from tests.rl.rollout.workers.test_runs import GAME, replies
from tests.support.forked_host import forked_processes
from tests.support.runs import Child, flags, metrics, train, train_run, training_error

SERVER = "rl.policy.pool.server"


def assert_alike(one: Path, other: Path) -> None:
    """Check that tokens are equal, and metrics but for the rounding of log-probabilities and those of engines."""
    lines, other_lines = metrics(one), metrics(other)
    assert len(lines) == len(other_lines) > 0
    for line, other_line in zip(lines, other_lines, strict=True):
        own = {key: value for key, value in other_line.items() if not key.startswith("engines/")}
        assert own == pytest.approx(line, rel=1e-3, abs=1e-4) and len(own) < len(other_line)
        assert replies(one, line["update"]) == replies(other, line["update"])


def engines_of(run: int) -> list[int]:
    """Process ids of the engines of a run."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == run and SERVER in (folder / "cmdline").read_text():
                pids.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return pids


def are_gone(pids: list[int], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}/cmdline").exists() and SERVER in _words(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_run_with_engines_plays_what_a_run_without_plays(tmp_path: Path) -> None:
    words = flags("Talk", updates=2, eval_every=1)
    alone = train_run(*words, out=tmp_path / "alone")
    assert_alike(alone, train_run(*words, "--engines", "2", out=tmp_path / "apart"))
    assert engines_of(os.getpid()) == []


CASES: dict[str, list[str]] = {
    "environments in workers": flags("Talk", updates=2, eval_every=1),
    "adapters, with a cold start": flags("Low", updates=2, lora=2, cold_start=8),
    "several policies": flags(GAME, "--role", "each", updates=2),
    "another precision": flags("Talk", updates=2, engine_dtype="bfloat16"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_an_engine_can_do_several_can(name: str, tmp_path: Path) -> None:
    alone = train_run(*CASES[name], out=tmp_path / "alone")
    more = ("--workers", "2") if name == "environments in workers" else ()
    with forked_processes():
        apart = train_run(*CASES[name], "--engines", "2", *more, out=tmp_path / "apart")
    if name == "another precision":  # whose rounding may change a draw
        assert len(metrics(alone)) == len(metrics(apart))
    else:
        assert_alike(alone, apart)


@pytest.mark.slow
def test_an_engine_that_is_much_slower_than_the_other_changes_no_token(tmp_path: Path) -> None:
    """It stands still for nine tenths of the time."""
    words = flags("Talk", updates=3, groups=4, turn_tokens=12)
    alone = train_run(*words, out=tmp_path / "alone")
    is_over = threading.Event()

    def slow_down(pids: list[int]) -> None:
        while not is_over.is_set():
            for number, seconds in ((signal.SIGSTOP, 0.09), (signal.SIGCONT, 0.01)):
                with suppress(ProcessLookupError):
                    for pid in pids[:1]:
                        os.kill(pid, number)
                time.sleep(seconds)

    with forked_processes() as host:
        other = threading.Thread(target=slow_down, args=(host.pids,))
        other.start()
        try:
            apart = train_run(*words, "--engines", "2", out=tmp_path / "apart")
        finally:
            is_over.set()
            other.join()
    assert len(host.pids) == 2
    assert_alike(alone, apart)


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_no_engine_and_goes_on_with_another_number(tmp_path: Path) -> None:
    words, out = flags("Talk", updates=4, save_every=1), tmp_path / "run"
    alone = train_run(*words, out=tmp_path / "alone")
    child = Child(*words, "--engines", "2", "--out", str(out), log=tmp_path / "log")
    assert child.wait_for("update 2/4", 120)
    pids = engines_of(child.process.pid or 0)
    (home,) = {Path(json.loads(_words(pid).rstrip("\0").rpartition("\0")[2])) for pid in pids}
    assert home.is_dir()
    child.signal(signal.SIGKILL)
    child.wait()
    assert len(pids) == 2 and are_gone(pids)
    assert not home.exists()
    with forked_processes():
        again = train("--resume", "--out", str(out), "--engines", "3")
    assert again.code == 0, again.err
    assert_resumed_alike(alone, out)


def assert_resumed_alike(one: Path, other: Path) -> None:
    assert [line["update"] for line in metrics(other)] == [line["update"] for line in metrics(one)]
    for line in metrics(one):
        assert replies(one, line["update"]) == replies(other, line["update"])


@pytest.mark.slow
def test_engines_that_only_die_end_a_run_in_a_line_and_it_can_be_resumed(tmp_path: Path) -> None:
    words, out = flags("Talk", updates=400, save_every=1), tmp_path / "run"
    child = Child(*words, "--engines", "2", "--out", str(out), log=tmp_path / "log")
    assert child.wait_for("update  20/400", 120)
    deadline = time.monotonic() + 100
    while child.process.is_alive() and time.monotonic() < deadline:
        for pid in engines_of(child.process.pid or 0):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    result = child.wait()
    assert result.code == 2 and "3 restarts in a row gave no reply" in result.out and "can be resumed" in result.out
    assert "Traceback" not in result.out
    made = len(metrics(out))
    with forked_processes():
        again = train("--resume", "--out", str(out), "--engines", "1", "--updates", str(made + 1))
    assert again.code == 0, again.err


def test_what_engines_cannot_do_is_refused_in_a_line() -> None:
    assert training_error(*flags(engines=0)) == "--engines 0: must be at least 1"
    assert "give each of 2 engines one list, as 1;2" in training_error(*flags(engines=2, engine_devices="0;1;2"))
    assert "computes on one device" in training_error(*flags(engines=2, engine_devices="0,1;2,3"))
    assert "on the CPU; leave it out" in training_error(*flags(engines=2, engine_devices="0;1", device="cpu"))
    two = flags(GAME, "--role", "each", engines=2, engine_devices="0;1")
    assert "share the trainer's device; leave it out" in training_error(*two)


def test_a_script_has_no_engines(capsys: Any) -> None:
    with pytest.raises(ValueError, match="--engines 2: --policy random has no engine here"):
        evaluate(["--env", "math/Arithmetic-v0", "--policy", "random", "--engines", "2", "--episodes", "2"])
