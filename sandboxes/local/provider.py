"""The sandbox `local`: this machine's own kernel, no daemon, no root, no container.

A process that is made once locks itself in and loads Python, with numpy and sympy where a program names them; each
call is a fork of it. What that covers, and what it does not, is in `sandboxes.local.confinement.tiers`.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sandboxes import provider
from sandboxes.fair_queue import Turns
from sandboxes.local.confinement.tiers import TIERS
from sandboxes.local.pool import Stock
from sandboxes.local.session import PlaceRoom
from sandboxes.request import Work
from sandboxes.session_base import KeptSession
from sandboxes.types import Content, Limits, Program, Result, SandboxClosed, SandboxDied, Shelter


class Local:
    """See `sandboxes.types.Sandbox`. Raises SandboxUnavailable where the kernel does not allow the tier."""

    def __init__(
        self,
        tier: str = "",
        *,
        packages: Sequence[str] = ("numpy", "sympy"),
        places: int | None = None,
        queue_s: float = 60.0,
        start_s: float = 60.0,
    ) -> None:
        """`packages` are importable inside, where they are installed; no others are.

        Sessions, and programs in whose text one of their names stands, find them loaded; other programs are served by
        a lighter process, faster. `places` is how many stateless calls run at once (default: twice the cores); further
        ones wait in the order of their coming, for up to `queue_s`.
        """
        tier = tier or "namespaces"
        provider(f"local:{tier}")
        if places is not None and places < 1:
            raise ValueError(f"places = {places}: must be at least 1")
        self.tier, self.packages, self.start_s, self.queue_s = tier, tuple(packages), start_s, queue_s
        self.places = places or 2 * (os.cpu_count() or 1)
        self._names = re.compile("|".join(map(re.escape, packages)) or "(?!)")
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._turns = Turns(self.places, self.queue_s)
        self._sessions: weakref.WeakSet[KeptSession] = weakref.WeakSet()
        self._closed = False
        self._light = Stock(self.tier, self.packages, (), self.start_s)
        self._heavy: Stock | None = None if self.packages else self._light

    @property
    def shelter(self) -> Shelter:
        """What it protects against, with what this machine gives for counting memory."""
        return replace(TIERS[self.tier], memory=self._light.memory)

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
        needs_packages = isinstance(program, str) and self._names.search(program) is not None
        stock = self._loaded() if needs_packages else self._light
        with self._turns:
            try:
                return _run(stock, work)
            except SandboxDied:
                if self._closed:
                    raise
                return _run(stock, work)

    def session(self, *, limits: Limits | None = None) -> KeptSession:
        """See `Sandbox.session`. Sessions have places of their own and wait for nobody."""
        self._check()
        limits = limits or Limits()
        room = PlaceRoom(self._loaded().open(), limits)
        session = KeptSession(room, lambda: self.session(limits=limits))
        weakref.finalize(session, room.place.close)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """See `Sandbox.close`."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        for session in list(self._sessions):
            session.room.kill()
        for stock in self._stocks():
            stock.close()

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._pid != os.getpid():  # a forked child: what it sees is its parent's
            for stock in self._stocks():
                stock.forget()
            self._begin()
        if self._closed:
            raise SandboxClosed("the sandbox is closed")

    def _stocks(self) -> set[Stock]:
        return {self._light} | ({self._heavy} if self._heavy else set())

    def _loaded(self) -> Stock:
        """Places with the packages loaded; made when first needed, as that takes a second."""
        with self._lock:
            if self._heavy is None:
                self._heavy = Stock(self.tier, self.packages, self.packages, self.start_s)
            return self._heavy


def _run(stock: Stock, work: Work) -> Result:
    place = stock.take()
    try:
        return place.run(work.inside(), work.stdin, work.limits, work.timeout_s, fetch=work.fetch, once=True)
    except BaseException as fault:
        if not isinstance(fault, OSError):  # files that did not fit leave a place as good as it was
            place.is_good = False
        raise
    finally:
        stock.give(place)
