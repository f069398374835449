"""One sandbox of a kind for all environments of a process: opened when first used, closed by whoever used it last."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import sandboxes
from sandboxes import Sandbox

_lock = threading.RLock()  # as a collected lease is closed in the middle of anything
_open: dict[tuple[int, str, str], tuple[Sandbox, set[int]]] = {}  # by process, as a fork must not use its parent's


class Lease:
    """A share in this process's sandbox `name`, such as "local" or "docker".

    Environments make one when they are made, which opens nothing; `sandbox` opens it, `close` gives the share back and
    may be called at any time. Raises ValueError for an unknown name at once, SandboxUnavailable when it is opened.
    """

    def __init__(self, name: str = "local", options: Mapping[str, Any] | None = None) -> None:
        self.name, self.options = name, dict(options or {})
        sandboxes.provider(name)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, shared with every other holder of an equal lease."""
        with _lock:
            found = _open.get(self._key)
            if found is None:
                found = _open[self._key] = (sandboxes.open(self.name, **self.options), set())
            found[1].add(id(self))
            return found[0]

    def close(self) -> None:
        """Give the share back; the last one closes the sandbox."""
        with _lock:
            found = _open.get(self._key)
            if found is None or id(self) not in found[1]:
                return
            found[1].remove(id(self))
            if found[1]:
                return
            del _open[self._key]
        found[0].close()

    @property
    def _key(self) -> tuple[int, str, str]:
        return os.getpid(), self.name, repr(sorted(self.options.items()))

    def __del__(self) -> None:
        self.close()
