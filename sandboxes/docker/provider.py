"""The sandbox `docker`: containers of an engine, in each an agent of ours that forks a process for each call.

Nothing is started for a call, so it costs what a fork costs; `exec` of the engine, which costs twenty times as much and
knows no deadline, is never used. What that covers, and what it does not, is in `sandboxes.docker.container_config`.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec

from sandboxes.docker import codec, image
from sandboxes.docker.container import BoxRoom, opened
from sandboxes.docker.container_config import SHELTER, Shape
from sandboxes.docker.engine import Engine
from sandboxes.docker.pool import Pool
from sandboxes.fair_queue import Turns
from sandboxes.request import Work
from sandboxes.session_base import KeptSession
from sandboxes.types import Content, Limits, Program, Result, SandboxClosed, SandboxDied, SandboxUnavailable, Shelter


class Docker:
    """See `sandboxes.types.Sandbox`. Raises SandboxUnavailable where there is no engine, or no such image."""

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
        """`image` is a name, fetched where it is not here; `build` a folder with a Dockerfile; both need Python 3.11.

        Without either the image is made of this machine's own Python with `packages`. Programs in whose text one of
        their names stands find them loaded. `cpus` is for each container, `places` how many stateless calls run at once
        (default: twice the cores), each in a container that is used again; further calls wait in the order of their
        coming, for up to `queue_s`. `warm` containers for calls with the default limits are made at once.
        """
        if image and build:
            raise ValueError(f"image = {image!r} and build = {os.fspath(build)!r}: give one of both")
        for name, value, least in (
            ("places", 1 if places is None else places, 1),
            ("cpus", cpus, 0.01),
            ("warm", warm, 0),
        ):
            if value < least:
                raise ValueError(f"{name} = {value}: must be at least {least}")
        self.packages, self.cpus, self.queue_s, self.start_s = tuple(packages), cpus, queue_s, start_s
        self.places, self.warm = places or 2 * (os.cpu_count() or 1), warm
        self._source = (image, build)
        self._names = re.compile("|".join(map(re.escape, packages)) or "(?!)")
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        self._turns = Turns(self.places, self.queue_s)
        self._engine = Engine()
        self._engine.sweep()
        self.image = image.prepared(self._engine, *self._source, self.packages)
        loadable = [name for name in self.packages if find_spec(name)] if not any(self._source) else []
        make = partial(opened, self._engine, self.image, cpus=self.cpus, preload=loadable, start_s=self.start_s)
        self._pool = Pool(make, self.places)  # which must not hold this sandbox: who is forgotten is closed
        self._finalizer = weakref.finalize(self, _end, self._engine, self._pool, self._pid)
        try:
            ready = [self._pool.take(Shape.of(Limits(), loaded=False)) for _ in range(self.warm)]
        except BaseException as fault:
            self._finalizer()
            if isinstance(fault, SandboxDied):
                raise SandboxUnavailable(str(fault)) from None
            raise
        for box in ready:
            self._pool.give(box)

    @property
    def shelter(self) -> Shelter:
        """What it protects against."""
        return SHELTER

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
        """See `Sandbox.run`. OSError where `files` do not fit into the limits."""
        work = Work.checked(program, stdin, files, fetch, env, timeout_s, limits)
        self._check()
        with self._turns:
            try:
                return self._run(work)
            except SandboxDied:
                if self._closed:
                    raise
                return self._run(work)

    def _run(self, work: Work) -> Result:
        loaded = isinstance(work.program, str) and not any(self._source) and bool(self._names.search(work.program))
        box = self._pool.take(Shape.of(work.limits, loaded=loaded))
        head = {"do": "run", "once": True, "program": work.program, "paths": list(work.files), "env": work.env}
        head |= {"fetch": work.fetch, "limits": asdict(work.limits), "timeout_s": work.timeout_s}
        try:
            answer = box.ask(head, [work.stdin, *work.files.values()], within_s=work.timeout_s)
        finally:
            self._pool.give(box)
        return codec.heard(answer.head["result"], answer.blobs)

    def session(self, *, limits: Limits | None = None) -> KeptSession:
        """See `Sandbox.session`. Sessions have containers of their own and wait for nobody."""
        self._check()
        limits = limits or Limits()
        box = self._pool.take(Shape.of(limits, loaded=False))
        room = BoxRoom(box, asdict(limits), self._pool.give)
        session = KeptSession(room, lambda: self.session(limits=limits))
        weakref.finalize(session, room.close)
        return session

    def close(self) -> None:
        """See `Sandbox.close`."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self._finalizer()

    def __enter__(self) -> Docker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._pid != os.getpid():  # a forked child: what it sees is its parent's
            self._finalizer.detach()
            self._pool.forget()
            self._begin()
        if self._closed:
            raise SandboxClosed("the sandbox is closed")


def _end(engine: Engine, pool: Pool, pid: int) -> None:
    if os.getpid() != pid:
        return
    engine.await_gone([box.container for box in pool.kill()])
    engine.close()
