"""The process of a `VLLMEngineClient`: starting it, calling it with a timeout, and ending it with all its children."""

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any

from rl.processes.timeout import TIMEOUT_VARIABLE, answer_timeout_s

POLL_S = 1.0  # between checks whether the process lives; another process may hold its end of the channel open
GRACE_S = 10.0  # for an orderly end
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from rl.policy.vllm.engine_server import serve; serve(*map(int, sys.argv[2:4]), sys.argv[4])"
)


class EngineLost(RuntimeError):
    """The engine's process is gone, or failed with an error that a new process may not have."""


class EngineProcess:
    """`rl.policy.vllm.engine_server` in a process of its own session, out of reach of Ctrl-C.

    `home` is its folder for temporary files, deleted when it ends. Its output goes to a file, whose last line is part
    of the error when it dies; with VLLM_LOGGING_LEVEL it goes to standard error. A process that has not answered for
    `timeout_s` seconds is killed: 1800, or the value of TURNWISE_ENGINE_TIMEOUT_S. `is_pending` says whether the answer
    to the last message is still to be received.
    """

    def __init__(self, home: str, environment: Mapping[str, str]) -> None:
        """Start the process; `environment` is added to this process's. Raises `ValueError` for a bad timeout."""
        try:
            self.timeout_s = answer_timeout_s()
        except ValueError:
            shutil.rmtree(home, ignore_errors=True)
            raise
        channel, child_end = Pipe()
        _set_timeouts(channel, self.timeout_s)
        output = tempfile.TemporaryFile()  # noqa: SIM115 (it stays open for `_describe_end`)
        is_verbose = os.environ.get("VLLM_LOGGING_LEVEL", "ERROR") != "ERROR"
        stream: IO[Any] = sys.__stderr__ if is_verbose and sys.__stderr__ else output
        arguments = json.dumps(sys.path), str(child_end.fileno()), str(os.getpid()), home
        with child_end:
            self._popen = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _BOOT, *arguments],
                pass_fds=(child_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self.home, self.pid, self._channel, self.is_pending = home, self._popen.pid, channel, False
        self._output, self._output_size = output, 0  # bytes of it when the process last answered
        self.close = weakref.finalize(self, _close, self._popen, channel, home, os.getpid())

    def send(self, message: Any) -> None:
        """Send a message, as `rl.policy.vllm.engine_server.serve` describes them, whose answer `receive` returns.

        A message is `(method, arguments, new requests by key, aborted keys)`. Raises `EngineLost` if the process takes
        none within `timeout_s` seconds, or if the answer to the last one was not received: it would be taken for that
        to this one, so the process is killed.
        """
        if self.is_pending:
            self.kill()
            raise EngineLost(self._describe_end("was killed after a call that was interrupted"))
        self.is_pending = True
        with self._ending_on_errors():
            self._channel.send(message)

    def receive(self) -> Any:
        """Return the answer to a message, which begins with "done" or "failed".

        Raises `EngineLost` if there is none within `timeout_s` seconds.
        """
        with self._ending_on_errors():
            self._wait_for_answer()
            answer = self._channel.recv()
            self.is_pending = False
        self._output_size = os.fstat(self._output.fileno()).st_size
        return answer

    def kill(self) -> None:
        """Kill the process; messages to it raise `EngineLost` from here on."""
        self._popen.kill()

    @contextmanager
    def _ending_on_errors(self) -> Iterator[None]:
        """Context of sending or receiving, in which a process that has ended is an `EngineLost`.

        One that is late is killed, and so it is on any other error, such as Ctrl-C: perhaps half a message has passed.
        """
        try:
            yield
            return
        except (BlockingIOError, TimeoutError):
            self.kill()
            end = f"gave no answer for {self.timeout_s:g} s ({TIMEOUT_VARIABLE}) and was killed"
        except (EOFError, OSError):
            end = ""
        except BaseException:
            self.kill()
            self.is_pending = False
            raise
        self.is_pending = False
        raise EngineLost(self._describe_end(end)) from None

    def _wait_for_answer(self) -> None:
        """Wait until there is an answer. Time is counted in polls: while this process is stopped none passes."""
        elapsed_s = 0.0
        while not self._channel.poll(interval_s := min(POLL_S, self.timeout_s)):
            if self._popen.poll() is not None:
                raise EOFError
            elapsed_s += interval_s
            if elapsed_s >= self.timeout_s:
                raise TimeoutError

    def _describe_end(self, end: str = "") -> str:
        """One line that says how the process ended (`end`, or by its exit code) and what it printed last."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(GRACE_S)
        code = self._popen.poll()
        if not end:
            end = "does not answer" if code is None else f"ended with exit code {code}"
            if code is not None and code < 0:
                end = f"was killed ({signal.Signals(-code).name})"
        self._output.seek(self._output_size)
        last_line = self._output.read().decode(errors="replace").strip().rpartition("\n")[2]
        return " ".join(f"the engine's process {self.pid} {end}{last_line and ': ' + last_line}".split())


def _set_timeouts(channel: Connection, timeout_s: float) -> None:
    """Bound how long `channel` blocks with half a message sent, or half an answer received."""
    timeout = struct.pack("@ll", int(timeout_s), int(timeout_s % 1 * 1e6))
    with socket.socket(fileno=os.dup(channel.fileno())) as duplicate:
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            duplicate.setsockopt(socket.SOL_SOCKET, option, timeout)


def _close(popen: subprocess.Popen[bytes], channel: Connection, home: str, owner: int) -> None:
    """Ask the process to end, kill it if it does not, and delete `home`. Only the process `owner` may do so."""
    if os.getpid() != owner:  # a fork of that process
        return
    with suppress(OSError):
        channel.send(None)  # a fork of this process may hold our end open
    channel.close()
    try:
        popen.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        popen.kill()
        with suppress(subprocess.TimeoutExpired):  # a driver that hangs holds even a killed process
            popen.wait(GRACE_S)
    _kill_session(popen.pid)
    shutil.rmtree(home, ignore_errors=True)


def _kill_session(session: int) -> None:
    """End the other processes of a session: vLLM's workers, which end by themselves unless they wait for each other."""
    deadline = time.monotonic() + GRACE_S
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(session, 0)
            time.sleep(0.05)
        os.killpg(session, signal.SIGKILL)
