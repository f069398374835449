"""Call a trusted function on untrusted arguments in worker processes, with a deadline and a memory limit per call.

Handled: calls that never end, also inside one C function; calls that fill memory; workers that die; a parent that dies
(its workers end by themselves); a parent that forks (the child starts its own workers).
Not handled: a malicious function. A worker is no sandbox.

POSIX only. The memory limit and deadlines in CPU time need Linux; elsewhere deadlines are wall time.
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
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

WALL_FACTOR = 10  # wall seconds allowed per second of a deadline, because other processes may use the cores
GRACE_S = 0.25  # CPU seconds beyond its deadline after which a worker that has not interrupted the call is killed
_LINUX_CPU_CLOCK = 2  # CPUCLOCK_SCHED, for clock_gettime on another process
_WORKER_PROGRAM = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from envs.grading.workers import serve; serve(sys.argv[2], *map(int, sys.argv[3:]))"
)


class OverLimit(Exception):
    """A call exceeded a limit, which is the arguments' fault. `limit` is "deadline" or "memory"."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class _Interrupted(OverLimit):
    """A call over its deadline that the worker has interrupted itself, so that it can serve the next one."""


class WorkerError(RuntimeError):
    """An infrastructure fault: a worker did not start, died, or its function raised. Never a verdict on a reply."""


class WorkerPool:
    """Processes that serve one function, each started when first needed. Threads may share a pool.

    Args:
        target: "module:factory". Each worker calls the factory once, outside any deadline; it returns the function,
            whose arguments and result must be JSON-able.
        size: Largest number of processes.
        memory_mb: Memory that calls may use in addition to that of a worker that has just started.
        start_s: Wall seconds that the start of a worker may take.
    """

    def __init__(self, target: str, *, size: int = 1, memory_mb: int = 1024, start_s: float = 120.0) -> None:
        self.target, self.size, self.memory_mb, self.start_s = target, size, memory_mb, start_s
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._users = 0
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(self.size):
            self._idle.put(None)
        weakref.finalize(self, _stop_idle, self._idle, self._pid)  # also at the interpreter's exit

    def open(self) -> None:
        """Count a user in. Workers are kept until every user has called `close`."""
        with self._lock:
            self._users += 1

    def close(self) -> None:
        """Count a user out. The last one stops every worker that is not in a call; a later call starts new ones."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users:
                _stop_idle(self._idle, self._pid)

    def call(self, *arguments: Any, deadline_s: float) -> Any:
        """Call the function in a worker and return its result, which is JSON-able.

        Args:
            arguments: Arguments of the function; JSON-able.
            deadline_s: Seconds of CPU time of the worker.

        Raises:
            OverLimit: The call used more time or memory.
            WorkerError: Two workers in a row died, waited `WALL_FACTOR` times the deadline without using it up, or
                reported an exception of the function.
        """
        if self._pid != os.getpid():  # in a forked child the workers belong to the parent
            self._start()
        request = json.dumps({"arguments": arguments, "deadline_s": deadline_s}).encode()
        worker = self._idle.get()
        try:
            is_retry = False
            while True:
                try:
                    worker = worker or _Worker(self.target, self.memory_mb, self.start_s)
                    return worker.send_request(request, deadline_s)
                except _Interrupted:
                    raise
                except BaseException as error:  # the worker may still be busy with the call
                    if worker is not None:
                        worker.stop()
                    worker = None
                    if is_retry or not isinstance(error, WorkerError):
                        raise
                    is_retry = True
        finally:
            self._idle.put(worker)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that are not in a call."""
        return [worker.process.pid for worker in list(self._idle.queue) if worker]


def _stop_idle(idle: queue.LifoQueue[_Worker | None], pid: int) -> None:
    if os.getpid() != pid:
        return
    workers = []
    while not idle.empty():
        try:
            workers.append(idle.get_nowait())
        except queue.Empty:
            break
    for worker in workers:
        if worker is not None:
            worker.stop()
        idle.put(None)


class _Worker:
    """One process, as its parent handles it."""

    def __init__(self, target: str, memory_mb: int, start_s: float) -> None:
        self.channel, worker_end = Pipe()
        fd = worker_end.fileno()
        numbers = map(str, (fd, memory_mb, os.getpid()))
        command = [sys.executable, "-c", _WORKER_PROGRAM, json.dumps(sys.path), target, *numbers]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        devnull = subprocess.DEVNULL
        with tempfile.TemporaryFile() as stderr, worker_end:
            self.process = subprocess.Popen(
                command, pass_fds=(fd,), stdin=devnull, stdout=devnull, stderr=stderr, env=environment
            )
            worker_end.close()
            try:
                if not self.channel.poll(start_s):
                    raise WorkerError(f"a worker for {target} did not start within {start_s:g} s")
                self._read()
            except BaseException as error:
                self.stop()
                stderr.seek(0)
                last_line = stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
                if isinstance(error, WorkerError) and last_line:
                    raise WorkerError(f"{error}: {last_line}") from None
                raise

    def send_request(self, request: bytes, deadline_s: float) -> Any:
        """Send a request and return the result. Raises OverLimit and WorkerError as `WorkerPool.call` does."""
        start_time, used_s = time.monotonic(), 0.0
        start_cpu = self._cpu_s()
        try:
            self.channel.send_bytes(request)
        except OSError:
            raise WorkerError(f"worker {self.process.pid} died while idle") from None
        while not self.channel.poll(min(max(deadline_s + GRACE_S - used_s, 0.02), 0.5)):
            wall_s = time.monotonic() - start_time
            cpu = self._cpu_s()
            used_s = wall_s if start_cpu is None or cpu is None else cpu - start_cpu
            if used_s >= deadline_s + GRACE_S:
                raise OverLimit("deadline")
            if wall_s >= WALL_FACTOR * deadline_s:
                raise WorkerError(f"worker {self.process.pid} waited {wall_s:.1f} s and computed for {used_s:.1f} s")
        return self._read()

    def stop(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.wait()
        self.channel.close()

    def _read(self) -> Any:
        try:
            response = json.loads(self.channel.recv_bytes())
        except (EOFError, OSError):
            code = self.process.wait()
            if code == -signal.SIGXCPU:
                raise OverLimit("deadline") from None
            raise WorkerError(f"worker {self.process.pid} died with exit code {code}") from None
        if "limit" in response:
            raise (_Interrupted if response["limit"] == "deadline" else OverLimit)(response["limit"])
        if "error" in response:
            raise WorkerError(response["error"])
        return response["value"]

    def _cpu_s(self) -> float | None:
        """CPU seconds that the process has used; None where the system does not tell."""
        try:
            return time.clock_gettime((~self.process.pid << 3) | _LINUX_CPU_CLOCK)
        except (OSError, OverflowError, AttributeError):
            return None


def serve(target: str, fd: int, memory_mb: int, parent: int) -> None:
    """Run a worker: load the function, then answer requests one by one until the parent process ends.

    Args:
        target: "module:factory"; the factory returns the function.
        fd: File descriptor of the pipe to the parent: requests and answers are JSON.
        memory_mb: Memory that calls may use beyond that of the worker at its start.
        parent: Process id of the parent.
    """
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    channel = Connection(fd)
    try:
        module, factory = target.split(":")
        function = getattr(importlib.import_module(module), factory)()
    except Exception as error:
        channel.send_bytes(json.dumps({"error": f"{target}: {type(error).__name__}: {error}"}).encode())
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory(memory_mb << 20)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, requests, parent), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    channel.send_bytes(b'{"value": "ready"}')
    while True:
        request = json.loads(requests.get())
        # Last resort for a worker that loops in C code after its parent has ended.
        cpu_limit_s = math.ceil(time.process_time() + request["deadline_s"]) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        try:
            with _interrupt_after(request["deadline_s"]):
                value = function(*request["arguments"])
            response = {"value": value}
        except _Interrupt:
            response = {"limit": "deadline"}
        except MemoryError:
            response = {"limit": "memory"}
        except Exception as error:
            response = {"error": f"{target}: {type(error).__name__}: {error}"}
        channel.send_bytes(json.dumps(response).encode())


class _Interrupt(BaseException):
    """A call has used up its CPU time. Not an Exception, so that handlers in libraries do not catch it."""


@contextmanager
def _interrupt_after(cpu_s: float) -> Iterator[None]:
    """Raise `_Interrupt` in the block once it has used so much CPU time.

    So the worker need not be killed, and the next call does not wait until another one has imported its modules. Code
    in C is interrupted when it returns; where it does not, the parent kills the worker.
    """

    def interrupt(*_: object) -> None:
        raise _Interrupt

    previous = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # once: a second signal could reach the worker's own code
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def _limit_memory(extra_bytes: int) -> None:
    """Limit the address space to its present size plus `extra_bytes`; does nothing without /proc."""
    import resource

    try:
        with open("/proc/self/statm") as statm:
            size = int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (size + extra_bytes, size + extra_bytes))


def _listen(channel: Connection, requests: queue.SimpleQueue[bytes], parent: int) -> None:
    """Put requests into the queue; end the process when the parent has ended.

    PR_SET_PDEATHSIG is no alternative: it fires when the *thread* that started this process ends.
    """
    while True:
        try:
            if channel.poll(2.0):
                requests.put(channel.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        if os.getppid() != parent:
            os._exit(0)
