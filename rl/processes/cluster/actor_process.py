"""A process on a node of a cluster as its run sees it: placed by Ray, held by an actor, called by Ray's calls.

Between the run and the actor there are Ray's calls alone. On this side a pair of sockets stands in for the one to a
process of this machine, so that whoever uses a process need not know where it is.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError

from rl.processes.cluster.keeper import Keeper, News, Order, Started

CHUNK = 1 << 20
NEWS_S = 1.0  # after which an actor without news answers that there are none
LOOK_S = 0.25  # between looks whether the process is to be killed
LOST_S = 60.0  # without an answer, after which an actor counts as lost
UNANSWERED = f"has answered nothing for {LOST_S:g} s"
KILL_S = 3.0  # for an actor to kill its process; then it is killed itself
PIECE = 64 << 20  # bytes of a file that are one object
MOST_PIECES = 2  # under way to the run, beside the one that it writes
MOST_CALLS = 8  # without an answer, of bytes that are sent
NUM_THREADS = 32  # of an actor, of which those calls may block as many
KEEP_CHILDREN = "RAY_kill_child_processes_on_worker_exit"  # Ray kills them at once; ours end by themselves, in order

ACTOR = ray.remote(Keeper)


class Lost(Exception):
    """There is no process any more, or never was one; the text says why."""


class ActorProcess:
    """A process on a node, as `rl.processes.host.Process` says.

    There is one actor for each process: Ray places it where there is room, and does not start it anew, since it would
    forget what it holds. Whoever uses the process starts another one in its place, which Ray may put on another node.
    """

    def __init__(
        self,
        name: str,
        order: Order,
        own_end: socket.socket,
        objects: Objects,
        *,
        gpus: int,
        place_s: float,
        strategy: Any = "SPREAD",
    ) -> None:
        """Ask for the process, which has `place_s` seconds to be placed.

        `own_end` is the far end of the socket, `strategy` how Ray chooses the node.
        """
        self.pid, self.is_up, self.fault, self.is_refused = 0, False, "", False
        self.node = self.home = ""
        self._name, self._order, self._gpus, self._place_s = name, order, gpus, place_s
        self._socket, self._objects = own_end, objects
        self._code: int | None = None
        self._ended, self._kill_end = threading.Event(), 0.0
        self._numbers, self._lock = count(), threading.Lock()
        reader, writer = os.pipe()
        self.stdout = os.fdopen(reader, "rb")
        self._output = os.fdopen(writer, "wb", buffering=0)
        self._keeper: Any = ACTOR.options(
            num_cpus=1,
            num_gpus=gpus,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=NUM_THREADS,
            scheduling_strategy=strategy,
            runtime_env={"env_vars": {KEEP_CHILDREN: "0"}},
        ).remote()
        threading.Thread(target=self._follow, daemon=True, name=f"{name}: news").start()

    def poll(self) -> int | None:
        """See `Process`."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """See `Process`."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
        assert self._code is not None
        return self._code

    def kill(self) -> None:
        """See `Process`."""
        if not self._kill_end:
            self._kill_end = time.monotonic() + KILL_S
            if self.is_up:
                self._call(self._keeper.kill)

    def describe(self) -> str:
        """See `Process`."""
        return f"process {self.pid} on node {self.node}" if self.node else "on no node yet"

    def send_file(self, path: str, name: str = "") -> str:
        """See `Process`. It is put into the object store once, whence each node fetches it once."""
        name = name or os.path.basename(path)
        try:
            pieces = self._objects.put(path)
        except (RayError, ConnectionError):  # the cluster is gone, which `_follow` notices
            return name
        with self._lock:
            for number, piece in enumerate(pieces, 1):
                self._call(self._keeper.send_file, next(self._numbers), name, piece, number == len(pieces))
        return name

    def drop_file(self, path: str) -> None:
        """See `Process`."""
        self._call(self._keeper.drop_file, path)

    def fetch_file(self, name: str, folder: str) -> str:
        """See `Process`. It comes in pieces, of which few are under way at a time."""
        path, requests = os.path.join(folder, name), deque[Any]()
        try:
            size = self._answer(self._keeper.file_size.remote(name), LOST_S, UNANSWERED)
            with open(path, "wb") as file:
                for start in range(0, size, PIECE):
                    requests.append(self._keeper.read_file.remote(name, start, PIECE))
                    if len(requests) > MOST_PIECES:
                        file.write(self._answer(requests.popleft(), LOST_S, UNANSWERED))
                for piece in requests:
                    file.write(self._answer(piece, LOST_S, UNANSWERED))
        except Lost as lost:
            raise OSError(str(lost)) from None
        except RayError as error:
            raise OSError(describe_error(error)) from None
        self.drop_file(name)
        return path

    def _follow(self) -> None:
        """Wait for the actor, then pass on what its process says, until one of them has ended; on a thread."""
        try:
            self._begin()
            news = News(b"", (), None)
            while news.code is None:
                news = self._answer(self._keeper.receive.remote(NEWS_S), LOST_S, UNANSWERED)
                if news.lines:
                    self._output.write(b"".join(news.lines))
                with suppress(OSError):  # the run listens no more
                    self._socket.sendall(news.data)
            self._code = news.code
        except Lost as lost:
            self.fault = str(lost)
        except Exception as error:  # whatever Ray raises, of its own or of the actor's end
            self.fault = "is gone: " + describe_error(error)
        finally:
            self._finish()

    def _begin(self) -> None:
        """Wait until the process has started."""
        gpus = f" and {self._gpus} GPU" * bool(self._gpus)
        what = f"found no node with 1 CPU{gpus} to spare within {self._place_s:g} s"
        started: Started = self._answer(self._keeper.start.remote(self._order), self._place_s, what)
        if started.refusal:
            self.is_refused = True
            raise Lost(f"cannot be on node {started.node}, which {started.refusal}")
        self.pid, self.node, self.home = started.pid, started.node, started.home
        self.is_up = True
        threading.Thread(target=self._pass_on, daemon=True, name=f"{self._name}: bytes").start()

    def _answer(self, ref: Any, limit_s: float, what: str) -> Any:
        """Wait for an answer. Raises `Lost`, which says `what`, if it takes longer than `limit_s` seconds.

        Time is counted in looks, so that none passes while the run itself is stopped.
        """
        waited_s = 0.0
        while not ray.wait([ref], timeout=LOOK_S)[0]:
            waited_s += LOOK_S
            if waited_s > limit_s:
                raise Lost(what)
            if self._kill_end and (not self.is_up or time.monotonic() > self._kill_end):
                raise Lost("was ended")
        return ray.get(ref)

    def _pass_on(self) -> None:
        """Send what the run writes to the process, on a thread."""
        calls: list[Any] = []
        data: bytes | None = b"."
        while data and not self._ended.is_set():
            try:
                data = self._socket.recv(CHUNK) or None
            except OSError:
                data = None
            with self._lock:
                call = self._call(self._keeper.send, next(self._numbers), data)
            calls += [call] if call is not None else []
            while len(calls) > MOST_CALLS and not self._ended.is_set():
                calls = ray.wait(calls, timeout=LOOK_S)[1]

    def _call(self, method: Any, *arguments: Any) -> Any:
        """Call a method of the actor, without an answer. What is wrong with the actor is noticed by `_follow`."""
        try:
            return method.remote(*arguments)
        except Exception:
            return None

    def _finish(self) -> None:
        """Note the end, and let nobody wait for anything."""
        if self._kill_end:
            self.fault = ""
        if self._code is None:
            self._code = -signal.SIGKILL
        with suppress(Exception):
            ray.kill(self._keeper)
        self._ended.set()
        self._output.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Objects:
    """Files in the object store, in pieces: of each the newest that has its path."""

    def __init__(self) -> None:
        self._refs: dict[str, tuple[tuple[int, int], list[Any]]] = {}
        self._lock = threading.Lock()

    def put(self, path: str) -> Sequence[Any]:
        """Return the references of a file's pieces, which are put into the store once."""
        status = os.stat(path)
        version = status.st_mtime_ns, status.st_size
        with self._lock:
            for old in [one for one in self._refs if not os.path.exists(one)]:
                del self._refs[old]  # Ray frees it once those who fetch it have it
            if self._refs.get(path, ((), None))[0] != version:
                starts = range(0, max(status.st_size, 1), PIECE)
                pieces = [ray.put(np.fromfile(path, np.uint8, PIECE, offset=start)) for start in starts]
                self._refs[path] = version, pieces
            return self._refs[path][1]


def describe_error(error: Exception) -> str:
    """Return one line on an error of Ray, without the ids and the advice in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if "Error:" in line), lines[0] if lines else "")
    kind = type(error).__name__
    if kind in ("ActorDiedError", "ActorUnavailableError") and "Error:" not in cause:
        return f"its actor or its node has died ({kind})"
    return f"{kind}: {cause[:300]}"
