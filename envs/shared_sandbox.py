"""One sandbox of a kind for all environments of a process: opened when first used, closed by whoever used it last."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import sandboxes
from envs.arguments import parameters
from envs.suggestions import unknown
from sandboxes import Sandbox

LONGEST_S = 3600.0  # the most that an environment lets a program take

_lock = threading.RLock()  # as a collected lease is closed in the middle of anything
_open: dict[tuple[int, str, str], tuple[Sandbox, set[int]]] = {}  # by process, as a fork must not use its parent's


class Lease:
    """A share in this process's sandbox `name`, such as "local" or "docker".

    Environments make one when they are made, which opens nothing; `sandbox` opens it, `close` gives the share back and
    may be called at any time. Raises ValueError for an unknown name or option at once, and for a senseless value of an
    option, or SandboxUnavailable, when it is opened.
    """

    def __init__(self, name: str = "local", options: Mapping[str, Any] | None = None) -> None:
        place = sandboxes.provider(name)
        if not isinstance(options, Mapping | None):
            raise ValueError(f"sandbox_options must be a mapping such as {{'places': 2}}, not {options!r}")
        if options:
            _check(name, place, options)
        self.name, self.options = name, dict(options or {})
        self._label = (name, repr(sorted(self.options.items())))
        weakref.finalize(self, _give_back, self._label, id(self))

    def __reduce__(self) -> tuple[type[Lease], tuple[str, dict[str, Any]]]:
        return Lease, (self.name, self.options)  # a copy has a share of its own

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, shared with every other holder of an equal lease."""
        with _lock:
            sandbox, holders = _open.get((os.getpid(), *self._label)) or self._opened()
            holders.add(id(self))
            return sandbox

    def close(self) -> None:
        """Give the share back; the last one closes the sandbox."""
        _give_back(self._label, id(self))

    def _opened(self) -> tuple[Sandbox, set[int]]:
        try:
            sandbox = sandboxes.open(self.name, **self.options)
        except TypeError as error:
            raise ValueError(f"sandbox_options {self.options!r}: {error}") from error
        shared = _open[(os.getpid(), *self._label)] = (sandbox, set())
        return shared


def seconds(name: str, value: float) -> float:
    """The argument `name` of an environment, above 0 and up to an hour. Raises ValueError for another."""
    if not 0 < value <= LONGEST_S:
        raise ValueError(f"{name} must be above 0 and at most {LONGEST_S:g} seconds, not {value!r}")
    return float(value)


def _check(name: str, place: str, options: Mapping[str, Any]) -> None:
    module, _, cls = place.partition(":")
    known = parameters(getattr(import_module(module), cls)) or {}
    for option in options:
        if option not in known:
            raise ValueError(unknown("option", option, known, of=f"sandbox_options of {name!r}"))


def _give_back(label: tuple[str, str], holder: int) -> None:
    key = (os.getpid(), *label)
    with _lock:
        sandbox, holders = _open.get(key, (None, set()))
        if sandbox is None or holder not in holders:
            return
        holders.remove(holder)
        if holders:
            return
        del _open[key]
    sandbox.close()
