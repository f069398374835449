"""The sandbox `local`: this machine's own kernel, without a daemon, root or containers.

A zygote, a process that is started once, confines itself and loads Python, with numpy and sympy for programs that name
them; each call is a fork of it. What that covers, and what it does not, is in `sandboxes.local.confinement.tiers`.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sandboxes.fair_queue import FairQueue
from sandboxes.local.confinement.mounts import package_paths
from sandboxes.local.confinement.tiers import TIERS
from sandboxes.local.pool import PlacePool
from sandboxes.local.session import PlaceBackend
from sandboxes.registry import check_name
from sandboxes.replay_session import ReplaySession
from sandboxes.request import RunRequest, check_size, check_wait
from sandboxes.types import Content, Isolation, Limits, Program, Result, SandboxClosed, SandboxDied

DEFAULT_PACKAGES = ("numpy", "sympy")
_MACHINE_MB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


class Local:
    """See `sandboxes.Sandbox`. Raises SandboxUnavailable where the kernel does not allow the tier."""

    def __init__(
        self,
        tier: str = "",
        *,
        packages: Sequence[str] = DEFAULT_PACKAGES,
        places: int | None = None,
        queue_s: float = 60.0,
        start_s: float = 60.0,
    ) -> None:
        """Start the processes of the sandbox.

        Args:
            tier: "namespaces" (also if empty), "landlock" or "process".
            packages: Names of installed packages that programs can import; no others can be. Those of the default may
                be missing. Sessions, and programs whose source contains one of the names, find them loaded; other
                programs are served by a lighter process, faster.
            places: How many stateless calls run at once; None is twice the number of cores. Others wait in order.
            queue_s: Seconds that a call may wait for a place.
            start_s: Seconds in which the first process must be ready.
        """
        self.check_options(tier, packages=packages, places=places, queue_s=queue_s, start_s=start_s)
        self.tier, self.packages, self.start_s, self.queue_s = tier or "namespaces", tuple(packages), start_s, queue_s
        self.places = places or 2 * (os.cpu_count() or 1)
        self._package_names = re.compile("|".join(map(re.escape, packages)) or "(?!)")
        self._start()

    @staticmethod
    def check_options(
        tier: str = "",
        *,
        packages: Sequence[str] = (),
        places: int | None = None,
        queue_s: float = 0.0,
        start_s: float = 0.0,
    ) -> None:
        """Raise ValueError, with its name, for an option of the constructor that cannot be; starts nothing."""
        check_name(f"local:{tier}")
        if places is not None and (type(places) is not int or places < 1):
            raise ValueError(f"places = {places!r:.40}: must be a whole number of at least 1, or None")
        is_list = isinstance(packages, Iterable) and not isinstance(packages, str)
        if not is_list or not all(isinstance(name, str) for name in packages):
            raise ValueError(f"packages = {packages!r:.60}: must be a list of names, such as ['numpy']")
        for name in () if packages == DEFAULT_PACKAGES else packages:
            if name not in sys.stdlib_module_names and not package_paths((name,)):
                raise ValueError(f"packages: {name!r} is not installed here; install it, or leave it out")
        check_wait("queue_s", queue_s)
        check_wait("start_s", start_s)

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._queue = FairQueue(self.places, self.queue_s)
        self._sessions: weakref.WeakSet[ReplaySession] = weakref.WeakSet()
        self._closed = False
        self._light_pool = PlacePool(self.tier, self.packages, (), self.start_s)
        self._package_pool: PlacePool | None = None if self.packages else self._light_pool

    @property
    def isolation(self) -> Isolation:
        """What programs of this tier are kept from, with the way in which this machine measures memory."""
        return replace(TIERS[self.tier], memory=self._light_pool.memory)

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
        check_size(request.limits, _MACHINE_MB)
        self._check_open()
        needs_packages = isinstance(program, str) and self._package_names.search(program) is not None
        pool = self._pool_with_packages() if needs_packages else self._light_pool
        with self._queue:
            try:
                return _run(pool, request)
            except SandboxDied:
                if self._closed:
                    raise
                return _run(pool, request)

    def session(self, *, limits: Limits | None = None) -> ReplaySession:
        """Open a session in a process tree of its own, without waiting for a free one; see `Sandbox.session`."""
        self._check_open()
        limits = check_size(limits or Limits(), _MACHINE_MB)
        backend = PlaceBackend(self._pool_with_packages().open(), limits)
        session = ReplaySession(backend, lambda: self.session(limits=limits))
        weakref.finalize(session, backend.place.close)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """End every process and remove every file; see `Sandbox.close`."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        for session in list(self._sessions):
            session.backend.kill()
        for pool in self._pools():
            pool.close()

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._pid != os.getpid():  # a forked process: the places belong to its parent
            for pool in self._pools():
                pool.detach()
            self._start()
        if self._closed:
            raise SandboxClosed("the sandbox is closed")

    def _pools(self) -> set[PlacePool]:
        return {self._light_pool} | ({self._package_pool} if self._package_pool else set())

    def _pool_with_packages(self) -> PlacePool:
        """The pool whose places have the packages loaded; started when first needed, as that takes a second."""
        with self._lock:
            if self._package_pool is None:
                self._package_pool = PlacePool(self.tier, self.packages, self.packages, self.start_s)
            return self._package_pool


def _run(pool: PlacePool, request: RunRequest) -> Result:
    place = pool.acquire()
    try:
        return place.run(
            request.payload(), request.stdin, request.limits, request.timeout_s, fetch=request.fetch, once=True
        )
    except BaseException as fault:
        if not isinstance(fault, OSError):  # files that did not fit do not harm the place
            place.is_reusable = False
        raise
    finally:
        pool.release(place)
