"""Shares in sandboxes that the environments of a process hold together: opened on first use, closed with the last."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import sandboxes
from envs.arguments import parameters
from envs.suggestions import unknown_message
from sandboxes import Sandbox
from sandboxes.registry import check_name, find_provider

MAX_TIMEOUT_S = 3600.0  # the most that an environment lets a program take

_lock = threading.RLock()  # reentrant, as a lease may be collected, and so closed, at any time
_open: dict[tuple[int, str, str], tuple[Sandbox, set[int]]] = {}  # by process, as a fork must not use its parent's


class Lease:
    """A share in a sandbox that the environments of this process use together, one for each name and options.

    Environments make one in their constructor, which opens nothing; reading `sandbox` opens it.

    Args:
        name: The kind of sandbox: "local", or a class such as "my_sandbox:MySandbox".
        options: Arguments of its class, such as `{"places": 2}`; None for none.
    """

    def __init__(self, name: str = "local", options: Mapping[str, Any] | None = None) -> None:
        """Raises ValueError for an unknown name or option, and for a value that the class's `check_options` refuses.

        The values of the options of a class without `check_options` are checked by `sandbox`.
        """
        check_name(name)
        if not isinstance(options, Mapping | None):
            raise ValueError(f"sandbox_options must be a mapping such as {{'places': 2}}, not {options!r}")
        if options:
            _check_options(name, options)
        self.name, self.options = name, dict(options or {})
        self._key = (name, repr(sorted(self.options.items())))
        weakref.finalize(self, _release, self._key, id(self))

    def __reduce__(self) -> tuple[type[Lease], tuple[str, dict[str, Any]]]:
        return Lease, (self.name, self.options)  # a copy has a share of its own

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, opened on first use and shared with all leases of the same name and options.

        Raises ValueError for a wrong value of an option, and SandboxUnavailable where the machine lacks something.
        """
        with _lock:
            sandbox, holders = _open.get((os.getpid(), *self._key)) or self._open_sandbox()
            holders.add(id(self))
            return sandbox

    def close(self) -> None:
        """Give the share back; the last one closes the sandbox. May be called again, and `sandbox` used afterwards."""
        _release(self._key, id(self))

    def _open_sandbox(self) -> tuple[Sandbox, set[int]]:
        try:
            sandbox = sandboxes.open(self.name, **self.options)
        except (TypeError, ValueError) as error:
            if isinstance(error, ValueError) and not self.options:
                raise
            raise ValueError(f"sandbox_options {self.options!r}: {error}") from error
        entry = _open[(os.getpid(), *self._key)] = (sandbox, set())
        return entry


def check_seconds(name: str, value: float) -> float:
    """Return `value`, the argument `name` of an environment, as a float.

    Raises ValueError with that name unless it is above 0 and at most an hour (3600).
    """
    if not 0 < value <= MAX_TIMEOUT_S:
        raise ValueError(f"{name} must be above 0 and at most {MAX_TIMEOUT_S:g} seconds, not {value!r}")
    return float(value)


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    cls = find_provider(name).cls
    names = parameters(cls)
    for option in options:
        if names is not None and option not in names:
            raise ValueError(unknown_message("option", option, names, of=f"sandbox_options of {name!r}"))
    if check := getattr(cls, "check_options", None):
        try:
            accepted = parameters(check) or {}  # a subclass may have more options than what it inherits checks
            check(**{option: value for option, value in options.items() if option in accepted})
        except ValueError as error:
            raise ValueError(f"sandbox_options {dict(options)!r}: {error}") from None


def _release(key: tuple[str, str], holder: int) -> None:
    process_key = (os.getpid(), *key)
    with _lock:
        sandbox, holders = _open.get(process_key, (None, set()))
        if sandbox is None or holder not in holders:
            return
        holders.remove(holder)
        if holders:
            return
        del _open[process_key]
    sandbox.close()
