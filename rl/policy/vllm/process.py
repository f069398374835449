"""A Python program of its own that answers messages, and is gone whenever the one that started it is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from math import nan
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any

LOOK_S = 1.0  # between looks at whether it lives; its end of the channel may be held open by somebody else
GRACE_S = 10.0  # for an orderly end
LIMIT = "TURNWISE_ENGINE_TIMEOUT_S"
LIMIT_S = 1800.0  # a start that reads a large model's code from a network, a step of long prompts on a slow CPU
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from rl.policy.vllm.engine_server import serve; serve(*map(int, sys.argv[2:4]), sys.argv[4])"
)


class EngineLost(RuntimeError):
    """The engine's process is gone, or has failed in a way that a new one may not."""


class Process:
    """`rl.policy.vllm.engine_server` in a new session, out of reach of Ctrl-C; the folder `home` goes when it does.

    What it says is kept for its obituary, unless VLLM_LOGGING_LEVEL asks to see more. One that has not answered for
    `limit_s` seconds is killed: 1800, or what the variable TURNWISE_ENGINE_TIMEOUT_S says.
    """

    def __init__(self, home: str, variables: Mapping[str, str]) -> None:
        """Raise `ValueError` for a limit that is none."""
        try:
            self.limit_s = limit_s()
        except ValueError:
            shutil.rmtree(home, ignore_errors=True)
            raise
        channel, theirs = Pipe()
        _bound(channel, self.limit_s)
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
        """Its answer to a message. Raises `EngineLost` where none comes any more, or none for `limit_s` seconds."""
        try:
            self._channel.send(message)
            self._wait()
            answer = self._channel.recv()
            self._said = os.fstat(self._words.fileno()).st_size
            return answer
        except (BlockingIOError, TimeoutError):
            self._program.kill()
            end = f"gave no answer for {self.limit_s:g} s ({LIMIT}) and was killed"
            raise EngineLost(self._obituary(end)) from None
        except (EOFError, OSError):
            raise EngineLost(self._obituary()) from None
        except BaseException:  # an answer that nobody waited for would be taken for the next one
            self._program.kill()
            raise

    def _wait(self) -> None:
        """Until there is an answer. Looks are counted, not a clock: while this process is stopped no time passes."""
        waited = 0.0
        while not self._channel.poll(look := min(LOOK_S, self.limit_s)):
            if self._program.poll() is not None:
                raise EOFError
            waited += look
            if waited >= self.limit_s:
                raise TimeoutError

    def _obituary(self, end: str = "") -> str:
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(GRACE_S)
        code = self._program.poll()
        if not end:
            end = "does not answer" if code is None else f"ended with exit code {code}"
            if code is not None and code < 0:
                end = f"was killed ({signal.Signals(-code).name})"
        self._words.seek(self._said)
        last = self._words.read().decode(errors="replace").strip().rpartition("\n")[2]
        return " ".join(f"the engine's process {self.pid} {end}{last and ': ' + last}".split())


def limit_s() -> float:
    """Seconds that an answer may take. Raises `ValueError` where the variable says nothing of the kind."""
    said = os.environ.get(LIMIT, "").strip()
    try:
        limit = float(said or LIMIT_S)
    except ValueError:
        limit = nan
    if not 0 < limit < 1e9:
        raise ValueError(f"{LIMIT}={said}: must be a number of seconds greater than 0 (default: {LIMIT_S:g})")
    return limit


def _bound(channel: Connection, limit_s: float) -> None:
    """See to it that `channel` waits no longer than that to be rid of half a message, or for half an answer."""
    limit = struct.pack("@ll", int(limit_s), int(limit_s % 1 * 1e6))
    with socket.socket(fileno=os.dup(channel.fileno())) as same:
        for way in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            same.setsockopt(socket.SOL_SOCKET, way, limit)


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
        with suppress(subprocess.TimeoutExpired):  # a driver that hangs holds even a killed process
            program.wait(GRACE_S)
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
