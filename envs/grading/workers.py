"""One function on untrusted arguments, in killable worker processes, with a deadline and a memory limit per call.

Covered: a call that computes for ever, also inside one C function; a call that fills memory; a worker that dies; a
parent that dies (its workers end by themselves); a parent that forks (the child starts workers of its own).
Not covered: a function that means harm. A worker is no sandbox: it must run a trusted function.

POSIX only; the memory limit and CPU-time deadlines need Linux, elsewhere deadlines are wall time.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 10  # wall seconds granted per second of a deadline: other processes may hold the cores
_LINUX_CPU_CLOCK = 2  # CPUCLOCK_SCHED, for clock_gettime on another process
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from envs.grading.workers import serve; serve(sys.argv[2], *map(int, sys.argv[3:]))"
)


class OverLimit(Exception):
    """The arguments asked for more than a call may use: their fault, not ours. `limit` is "deadline" or "memory"."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class WorkerFault(RuntimeError):
    """A fault of ours: a worker did not start, died, or its function raised. Never to be read as a verdict."""


class Workers:
    """Up to `size` processes that serve one function, each started when first needed. Threads may share it.

    `target` is "module:factory". The factory is called once in the worker, before any deadline runs, and returns the
    function; its arguments and value are JSON-able. `memory_mb` is what calls may add to a freshly started worker.
    """

    def __init__(self, target: str, *, size: int = 1, memory_mb: int = 1024, start_s: float = 120.0) -> None:
        self.target, self.size, self.memory_mb, self.start_s = target, size, memory_mb, start_s
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._users = 0
        self._seats: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(self.size):
            self._seats.put(None)
        weakref.finalize(self, _stop_idle, self._seats, self._pid)  # also at the interpreter's exit

    def open(self) -> None:
        """Announce a user: workers outlive the others' `close` until this user has closed too."""
        with self._lock:
            self._users += 1

    def close(self) -> None:
        """Take a user away; after the last one, stop every worker that is not in a call. A later call starts anew."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users:
                _stop_idle(self._seats, self._pid)

    def call(self, *arguments: Any, deadline_s: float) -> Any:
        """The function's value. `deadline_s` are seconds of the worker's CPU time.

        Raises OverLimit if the call uses more time or memory; WorkerFault if two workers in a row died, waited
        `PATIENCE` times the deadline without computing, or saw the function raise.
        """
        if self._pid != os.getpid():  # a forked child: the workers it sees are its parent's
            self._begin()
        request = json.dumps({"arguments": arguments, "deadline_s": deadline_s}).encode()
        worker = self._seats.get()
        try:
            retried = False
            while True:
                try:
                    worker = worker or _Worker(self.target, self.memory_mb, self.start_s)
                    return worker.ask(request, deadline_s)
                except BaseException as fault:  # whatever it was, this worker may still be busy with it
                    if worker is not None:
                        worker.stop()
                    worker = None
                    if retried or not isinstance(fault, WorkerFault):
                        raise
                    retried = True
        finally:
            self._seats.put(worker)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that are not in a call."""
        return [worker.process.pid for worker in list(self._seats.queue) if worker]


def _stop_idle(seats: queue.LifoQueue[_Worker | None], pid: int) -> None:
    if os.getpid() != pid:
        return
    waiting = []
    while not seats.empty():
        try:
            waiting.append(seats.get_nowait())
        except queue.Empty:
            break
    for worker in waiting:
        if worker is not None:
            worker.stop()
        seats.put(None)


class _Worker:
    """The parent's end of one process."""

    def __init__(self, target: str, memory_mb: int, start_s: float) -> None:
        self.channel, theirs = Pipe()
        fd = theirs.fileno()
        command = [sys.executable, "-c", _BOOT, json.dumps(sys.path), target, str(fd), str(memory_mb), str(os.getpid())]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        quiet = subprocess.DEVNULL
        with tempfile.TemporaryFile() as complaints, theirs:
            self.process = subprocess.Popen(
                command, pass_fds=(fd,), stdin=quiet, stdout=quiet, stderr=complaints, env=environment
            )
            theirs.close()
            try:
                if not self.channel.poll(start_s):
                    raise WorkerFault(f"a worker for {target} did not start within {start_s:g} s")
                self._read()
            except BaseException as fault:
                self.stop()
                complaints.seek(0)
                last = complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
                if isinstance(fault, WorkerFault) and last:
                    raise WorkerFault(f"{fault}: {last}") from None
                raise

    def ask(self, request: bytes, deadline_s: float) -> Any:
        """Send a request and wait for its value."""
        began, used = time.monotonic(), 0.0
        cpu = self._cpu_s()
        try:
            self.channel.send_bytes(request)
        except OSError:
            raise WorkerFault(f"worker {self.process.pid} died while idle") from None
        while not self.channel.poll(min(max(deadline_s - used, 0.02), 0.5)):
            waited = time.monotonic() - began
            now = self._cpu_s()
            used = waited if cpu is None or now is None else now - cpu
            if used >= deadline_s:
                raise OverLimit("deadline")
            if waited >= PATIENCE * deadline_s:
                raise WorkerFault(f"worker {self.process.pid} waited {waited:.1f} s and computed for {used:.1f} s")
        return self._read()

    def stop(self) -> None:
        """Kill the process and collect it."""
        self.process.kill()
        self.process.wait()
        self.channel.close()

    def _read(self) -> Any:
        try:
            answer = json.loads(self.channel.recv_bytes())
        except (EOFError, OSError):
            code = self.process.wait()
            if code == -signal.SIGXCPU:
                raise OverLimit("deadline") from None
            raise WorkerFault(f"worker {self.process.pid} died with exit code {code}") from None
        if "limit" in answer:
            raise OverLimit(answer["limit"])
        if "fault" in answer:
            raise WorkerFault(answer["fault"])
        return answer["value"]

    def _cpu_s(self) -> float | None:
        try:
            return time.clock_gettime((~self.process.pid << 3) | _LINUX_CPU_CLOCK)
        except (OSError, OverflowError, AttributeError):
            return None


def serve(target: str, fd: int, memory_mb: int, parent: int) -> None:
    """The worker's main: load the function, then answer requests on `fd` one by one until the parent is gone."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    channel = Connection(fd)
    try:
        module, factory = target.split(":")
        function = getattr(importlib.import_module(module), factory)()
    except Exception as fault:
        channel.send_bytes(json.dumps({"fault": f"{target}: {type(fault).__name__}: {fault}"}).encode())
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(memory_mb << 20)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, requests, parent), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    channel.send_bytes(b'{"value": "ready"}')
    while True:
        request = json.loads(requests.get())
        # A stop of last resort for a worker that spins in C while its parent is gone.
        last_s = math.ceil(time.process_time() + request["deadline_s"]) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (last_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        try:
            answer = {"value": function(*request["arguments"])}
        except MemoryError:
            answer = {"limit": "memory"}
        except Exception as fault:
            answer = {"fault": f"{target}: {type(fault).__name__}: {fault}"}
        channel.send_bytes(json.dumps(answer).encode())


def _limit_memory(added: int) -> None:
    import resource

    try:
        with open("/proc/self/statm") as statm:
            size = int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (size + added, size + added))


def _listen(channel: Connection, requests: queue.SimpleQueue[bytes], parent: int) -> None:
    """Hand requests on; end the process when the parent is gone.

    The parent's death signal (PR_SET_PDEATHSIG) would not do: it fires when the *thread* that started us ends.
    """
    while True:
        try:
            if channel.poll(2.0):
                requests.put(channel.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        if os.getppid() != parent:
            os._exit(0)
