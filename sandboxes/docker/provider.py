"""The sandbox `docker`: containers of an engine, each with an agent that forks a process for each call.

A call costs what a fork costs, as nothing is started for it; the engine's `exec`, which costs twenty times as much and
has no deadline, is never used. What that covers, and what it does not, is in `sandboxes.docker.container_config`.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec

from sandboxes.docker import codec
from sandboxes.docker.container import ContainerBackend, start_container
from sandboxes.docker.container_config import ISOLATION, ContainerConfig
from sandboxes.docker.engine import Engine
from sandboxes.docker.image import prepare_image
from sandboxes.docker.pool import ContainerPool
from sandboxes.fair_queue import FairQueue
from sandboxes.replay_session import ReplaySession
from sandboxes.request import RunRequest, check_size, check_wait
from sandboxes.types import Content, Isolation, Limits, Program, Result, SandboxClosed, SandboxDied, SandboxUnavailable


class Docker:
    """See `sandboxes.Sandbox`. Raises SandboxUnavailable where there is no engine or no such image."""

    def __init__(
        self,
        image: str = "",
        *,
        build: str | os.PathLike[str] = "",
        packages: Sequence[str] = ("numpy", "sympy"),
        cpus: float = 1.0,
        places: int | None = None,
        warm: int = 1,
        queue_s: float = 60.0,
        start_s: float = 60.0,
    ) -> None:
        """Connect to the engine, prepare the image and start the first containers.

        Args:
            image: Name of an image with Python 3.11 or newer, which is pulled where the engine lacks it.
            build: Folder with a Dockerfile for such an image. Without `image` and `build` the image is made of this
                machine's own Python and `packages`.
            packages: Names of packages; programs whose source contains one of them find all loaded.
            cpus: Number of CPUs for each container.
            places: How many stateless calls run at once, each in a container that is reused; None is twice the number
                of cores. Others wait in order.
            warm: How many containers for calls with the default limits are started at once.
            queue_s: Seconds that a call may wait for a place.
            start_s: Seconds in which a container must be ready.
        """
        check_wait("queue_s", queue_s)
        check_wait("start_s", start_s)
        if image and build:
            raise ValueError(f"image = {image!r} and build = {os.fspath(build)!r}: give one of both")
        for name, value, minimum in (
            ("places", 1 if places is None else places, 1),
            ("cpus", cpus, 0.01),
            ("warm", warm, 0),
        ):
            if value < minimum:
                raise ValueError(f"{name} = {value}: must be at least {minimum}")
        self.packages, self.cpus, self.queue_s, self.start_s = tuple(packages), cpus, queue_s, start_s
        self.places, self.warm = places or 2 * (os.cpu_count() or 1), warm
        self._image_source = (image, build)
        self._package_names = re.compile("|".join(map(re.escape, packages)) or "(?!)")
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        self._queue = FairQueue(self.places, self.queue_s)
        self._engine = Engine()
        self._engine.remove_stale()
        self.image = prepare_image(self._engine, *self._image_source, self.packages)
        preload = [name for name in self.packages if find_spec(name)] if not any(self._image_source) else []
        start = partial(
            start_container, self._engine, self.image, cpus=self.cpus, preload=preload, start_s=self.start_s
        )
        self._pool = ContainerPool(start, self.places)  # without a reference to this sandbox, so that it is collected
        self._finalizer = weakref.finalize(self, _end, self._engine, self._pool, self._pid)
        default_config = ContainerConfig.from_limits(Limits(), preload=False)
        try:
            containers = [self._pool.acquire(default_config) for _ in range(self.warm)]
        except BaseException as fault:
            self._finalizer()
            if isinstance(fault, SandboxDied):
                raise SandboxUnavailable(str(fault)) from None
            raise
        for container in containers:
            self._pool.release(container)

    @property
    def isolation(self) -> Isolation:
        """What programs are kept from."""
        return ISOLATION

    def run(
        self,
        program: Program,
        *,
        stdin: Content = b"",
        files: Mapping[str, Content] | None = None,
        fetch: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        limits: Limits | None = None,
    ) -> Result:
        """Run one program on its own and return its result; see `Sandbox.run`."""
        request = RunRequest.create(program, stdin, files, fetch, env, timeout_s, limits)
        self._check_open()
        check_size(request.limits, self._engine.memory_mb)
        with self._queue:
            try:
                return self._run(request)
            except SandboxDied:
                if self._closed:
                    raise
                return self._run(request)

    def _run(self, request: RunRequest) -> Result:
        is_python = isinstance(request.program, str) and not any(self._image_source)
        preload = is_python and bool(self._package_names.search(str(request.program)))
        container = self._pool.acquire(ContainerConfig.from_limits(request.limits, preload=preload))
        head = {
            "do": "run",
            "once": True,
            "program": request.program,
            "paths": list(request.files),
            "env": request.env,
            "fetch": request.fetch,
            "limits": asdict(request.limits),
            "timeout_s": request.timeout_s,
        }
        try:
            response = container.request(head, [request.stdin, *request.files.values()], timeout_s=request.timeout_s)
        finally:
            self._pool.release(container)
        return codec.unpack_result(response.head["result"], response.blobs)

    def session(self, *, limits: Limits | None = None) -> ReplaySession:
        """Open a session in a container of its own, without waiting for a free one; see `Sandbox.session`."""
        self._check_open()
        limits = check_size(limits or Limits(), self._engine.memory_mb)
        container = self._pool.acquire(ContainerConfig.from_limits(limits, preload=False))
        backend = ContainerBackend(container, asdict(limits), self._pool.release)
        session = ReplaySession(backend, lambda: self.session(limits=limits))
        weakref.finalize(session, backend.close)
        return session

    def close(self) -> None:
        """End every process and remove every file; see `Sandbox.close`."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self._finalizer()

    def __enter__(self) -> Docker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._pid != os.getpid():  # a forked process: the containers belong to its parent
            self._finalizer.detach()
            self._pool.detach()
            self._start()
        if self._closed:
            raise SandboxClosed("the sandbox is closed")


def _end(engine: Engine, pool: ContainerPool, pid: int) -> None:
    if os.getpid() != pid:
        return
    engine.await_removal([container.id for container in pool.kill()])
    engine.close()
