"""The conformance suite for sandboxes: what their users rely on, for any provider.

from sandboxes.checks import self_check
self_check(sandbox)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sandboxes.checks import bounds, files, running, sessions, walls
from sandboxes.checks.expect import Missing
from sandboxes.types import Sandbox, SandboxError

Behaviour = Callable[[Sandbox], None]
_AREAS = (running, files, bounds, walls, sessions)


class Finding(NamedTuple):
    """One behaviour: its name, what it claims, what contradicts it, or why it was not tried ("" where neither)."""

    name: str
    claim: str
    fault: str = ""
    skipped: str = ""


class CheckFailure(AssertionError):
    """A sandbox broke at least one promise; `findings` has them all."""

    def __init__(self, findings: list[Finding]) -> None:
        broken = [f"{finding.name}: {finding.fault} ({finding.claim})" for finding in findings if finding.fault]
        super().__init__("\n".join([f"{len(broken)} of {len(findings)} behaviours fail", *broken]))
        self.findings = findings


def behaviours() -> dict[str, Behaviour]:
    """Every behaviour by name, such as "walls.network": the functions of a sandbox alone in this package's modules."""
    found = {}
    for area in _AREAS:
        for name, function in vars(area).items():
            own = inspect.isfunction(function) and function.__module__ == area.__name__ and not name.startswith("_")
            if own and list(inspect.signature(function).parameters) == ["sandbox"]:
                found[f"{area.__name__.rpartition('.')[2]}.{name}"] = function
    return found


def self_check(sandbox: Sandbox) -> list[Finding]:
    """Try every behaviour, in order. Raises CheckFailure with all faults if there is one.

    A behaviour that the sandbox's tier does not promise is skipped, and its finding says what is missing. The sandbox
    is left open and usable. Takes about ten seconds.
    """
    findings = list(run(sandbox))
    if any(finding.fault for finding in findings):
        raise CheckFailure(findings)
    return findings


def run(sandbox: Sandbox) -> Iterator[Finding]:
    """Yield each finding as soon as there is one."""
    for name, behaviour in behaviours().items():
        yield attempt(name, behaviour, sandbox)


def attempt(name: str, behaviour: Behaviour, sandbox: Sandbox) -> Finding:
    """Try one behaviour."""
    claim = (behaviour.__doc__ or "").strip().splitlines()[0]
    try:
        behaviour(sandbox)
    except Missing as missing:
        return Finding(name, claim, skipped=str(missing))
    except AssertionError as fault:
        return Finding(name, claim, fault=str(fault) or "an assertion failed")
    except (SandboxError, OSError, ValueError, KeyError, TypeError) as fault:
        return Finding(name, claim, fault=f"{type(fault).__name__}: {fault}")
    return Finding(name, claim)
