"""SIGTERM and SIGHUP do what Ctrl-C does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from envs.stop_signals import like_ctrl_c
from tests.support.paths import ROOT


@contextmanager
def handler(number: int, action: Any) -> Iterator[None]:
    before = signal.signal(number, action)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("interrupt", [signal.default_int_handler, signal.SIG_IGN, signal.SIG_DFL])
def test_they_interrupt_and_give_their_own_exit_code(number: int, interrupt: Any) -> None:
    with handler(number, signal.SIG_DFL), handler(signal.SIGINT, interrupt):
        with like_ctrl_c() as stop, pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            [None for _ in range(10)]
        assert stop.exit_code(130) == 128 + number
        assert stop.exit_code(0) == 0  # it came too late
        assert signal.getsignal(number) is signal.SIG_DFL


def test_ctrl_c_keeps_its_code() -> None:
    with like_ctrl_c() as stop:
        assert stop.exit_code(130) == 130


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    with handler(signal.SIGHUP, signal.SIG_IGN), like_ctrl_c() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
    assert stop.number == 0


def test_a_forked_child_ends_as_usual() -> None:
    with handler(signal.SIGTERM, signal.SIG_DFL), like_ctrl_c():
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_the_command_of_environments_ends_with_their_codes(number: int, code: int) -> None:
    words = [sys.executable, "-m", "envs", "play", "math/Arithmetic-v0"]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline()
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == code


SHUTDOWN = """
import atexit, os, signal, sys, threading, time
from rl.cli import run

def clean_up():
    {in_clean_up}
    print("removed", flush=True)

def main():
    atexit.register(clean_up)
    threading.Thread(target=time.sleep, args=({seconds},)).start()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    raise KeyboardInterrupt

run(main)
"""


@pytest.mark.parametrize(
    ("seconds", "in_clean_up"),
    [(30, "pass"), (0, "time.sleep(1)"), (0, "os.kill(os.getpid(), signal.SIGINT); time.sleep(0.1)")],
    ids=["while a thread is waited for", "while files are removed", "twice"],
)
def test_a_second_ctrl_c_at_the_end_leaves_no_traceback_and_nothing_behind(seconds: int, in_clean_up: str) -> None:
    program = SHUTDOWN.format(seconds=seconds, in_clean_up=in_clean_up)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=25)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "removed\n", "-c: interrupted")
