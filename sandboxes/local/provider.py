"""The sandbox `local`: this machine's own kernel, no daemon, no root, no container.

A process that is made once locks itself in and loads Python, with numpy and sympy where a program names them; each
call is a fork of it. What that covers, and what it does not, is in `sandboxes.local.tiers`.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sandboxes.local.session import LocalSession
from sandboxes.local.stock import Stock
from sandboxes.local.tiers import TIERS
from sandboxes.local.turns import Turns
from sandboxes.types import (
    Content,
    Limits,
    Program,
    Result,
    SandboxClosed,
    SandboxDied,
    Shelter,
    as_bytes,
    relative,
)


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
        if tier not in TIERS:
            raise ValueError(f"local: no tier {tier!r}; there are {', '.join(TIERS)}")
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
        self._sessions: weakref.WeakSet[LocalSession] = weakref.WeakSet()
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
        for path in (*(files or ()), *fetch):
            relative(path)
        if timeout_s <= 0:
            raise ValueError(f"timeout_s = {timeout_s}: must be more than 0")
        work = {
            "program": program if isinstance(program, str) else _argv(program),
            "files": {path: as_bytes(content) for path, content in (files or {}).items()},
            "env": dict(env or {}),
        }
        self._check()
        needs_packages = isinstance(program, str) and self._names.search(program) is not None
        stock = self._loaded() if needs_packages else self._light
        with self._turns:
            try:
                return _run(stock, work, as_bytes(stdin), limits or Limits(), timeout_s, fetch)
            except SandboxDied:
                if self._closed:
                    raise
                return _run(stock, work, as_bytes(stdin), limits or Limits(), timeout_s, fetch)

    def session(self, *, limits: Limits | None = None) -> LocalSession:
        """See `Sandbox.session`. Sessions have places of their own and wait for nobody."""
        self._check()
        limits = limits or Limits()
        session = LocalSession(self._loaded().open(), limits, lambda: self.session(limits=limits))
        weakref.finalize(session, session.place.close)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """See `Sandbox.close`."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        for session in list(self._sessions):
            session.place.kill()
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


def _run(
    stock: Stock, work: dict[str, Any], stdin: bytes, limits: Limits, timeout_s: float, fetch: Sequence[str]
) -> Result:
    place = stock.take()
    try:
        return place.run(work, stdin, limits, timeout_s, fetch=fetch, once=True)
    except BaseException as fault:
        if not isinstance(fault, OSError):  # files that did not fit leave a place as good as it was
            place.is_good = False
        raise
    finally:
        stock.give(place)


def _argv(program: Sequence[str]) -> list[str]:
    words = list(program)
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"program {program!r}: must be the text of a Python program, or the words of a command")
    return words
