"""A Python program of its own that answers messages, and is gone whenever the one that started it is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any

LOOK_S = 1.0  # between looks at whether it lives; its end of the channel may be held open by somebody else
GRACE_S = 10.0  # for an orderly end
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from rl.policy.vllm.serve import serve; serve(*map(int, sys.argv[2:4]), sys.argv[4])"
)


class EngineLost(RuntimeError):
    """The engine's process is gone, or has failed in a way that a new one may not."""


class Process:
    """`rl.policy.vllm.serve` in a new session, out of reach of Ctrl-C; the folder `home` goes when it does.

    What it says is kept for its obituary, unless VLLM_LOGGING_LEVEL asks to see more.
    """

    def __init__(self, home: str, variables: Mapping[str, str]) -> None:
        channel, theirs = Pipe()
        words = tempfile.TemporaryFile()  # noqa: SIM115 (it stays open for the obituary)
        loud = os.environ.get("VLLM_LOGGING_LEVEL", "ERROR") != "ERROR"
        out: IO[Any] = sys.__stderr__ if loud and sys.__stderr__ else words
        parts = json.dumps(sys.path), str(theirs.fileno()), str(os.getpid()), home
        with theirs:
            self._program = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _BOOT, *parts],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        self.home, self.pid, self._channel = home, self._program.pid, channel
        self._words, self._said = words, 0  # bytes of it when it last answered
        self.close = weakref.finalize(self, _close, self._program, channel, home, os.getpid())

    def ask(self, message: Any) -> Any:
        """Its answer to a message. Raises `EngineLost` where none comes any more."""
        try:
            self._channel.send(message)
            while not self._channel.poll(LOOK_S):
                if self._program.poll() is not None:
                    raise EOFError
            answer = self._channel.recv()
            self._said = os.fstat(self._words.fileno()).st_size
            return answer
        except (EOFError, OSError):
            raise EngineLost(self._obituary()) from None
        except BaseException:  # an answer that nobody waited for would be taken for the next one
            self._program.kill()
            raise

    def _obituary(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(GRACE_S)
        code = self._program.poll()
        end = "does not answer" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            end = f"was killed ({signal.Signals(-code).name})"
        self._words.seek(self._said)
        last = self._words.read().decode(errors="replace").strip().rpartition("\n")[2]
        return " ".join(f"the engine's process {self.pid} {end}{last and ': ' + last}".split())


def _close(program: subprocess.Popen[bytes], channel: Connection, home: str, owner: int) -> None:
    """End it in order if that can be done, and surely; only whoever started it may."""
    if os.getpid() != owner:  # a fork of that process
        return
    with suppress(OSError):
        channel.send(None)  # a fork of this process may hold our end open
    channel.close()
    try:
        program.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    _clear(program.pid)
    shutil.rmtree(home, ignore_errors=True)


def _clear(session: int) -> None:
    """End what it left behind: workers of vLLM, which end by themselves unless they wait for each other."""
    ends = time.monotonic() + GRACE_S
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < ends:
            os.killpg(session, 0)
            time.sleep(0.05)
        os.killpg(session, signal.SIGKILL)
