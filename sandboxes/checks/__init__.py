"""The conformance suite for sandboxes: one behaviour after the other is tried on a sandbox of any provider.

from sandboxes.checks import self_check
self_check(sandbox)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sandboxes.checks import files, isolation, limits, programs, ruins, sessions
from sandboxes.checks.assertions import NotApplicable, require_protection
from sandboxes.provider import Sandbox

Behaviour = Callable[[Sandbox], None]
_MODULES = (programs, files, limits, isolation, sessions, ruins)


class CheckResult(NamedTuple):
    """The result for one behaviour.

    `claim` says what should be true; `failure` what contradicts it, and `skip_reason` why it was not tried, or "".
    """

    name: str
    claim: str
    failure: str = ""
    skip_reason: str = ""


class CheckFailure(AssertionError):
    """A sandbox fails at least one behaviour; `results` has those of all."""

    def __init__(self, results: list[CheckResult]) -> None:
        failures = [f"{result.name}: {result.failure} ({result.claim})" for result in results if result.failure]
        super().__init__("\n".join([f"{len(failures)} of {len(results)} behaviours fail", *failures]))
        self.results = results


def behaviours() -> dict[str, Behaviour]:
    """Return all behaviours, the functions that each test a sandbox for one promise, by name ("isolation.network").

    They are the public functions of this package's modules. Only those count whose single parameter is `sandbox`. The
    first line of the docstring is the claim.
    """
    functions = {}
    for module in _MODULES:
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
            if own and list(inspect.signature(function).parameters) == ["sandbox"]:
                functions[f"{module.__name__.rpartition('.')[2]}.{name}"] = function
    return functions


def self_check(sandbox: Sandbox) -> list[CheckResult]:
    """Try all behaviours in order, which takes about ten seconds. The sandbox stays open and usable.

    Behaviours that its `isolation` does not promise are skipped. Raises CheckFailure if a behaviour fails, and
    ValueError for what is no sandbox.
    """
    if missing := [name for name in ("run", "session") if not callable(getattr(sandbox, name, None))]:
        hint = f"open it with sandboxes.open({sandbox!r})" if isinstance(sandbox, str) else f"it lacks {missing}"
        raise ValueError(f"{sandbox!r:.80} is no sandbox; {hint}")
    results = list(run_checks(sandbox))
    if any(result.failure for result in results):
        raise CheckFailure(results)
    return results


def run_checks(sandbox: Sandbox) -> Iterator[CheckResult]:
    """Try all behaviours, the tests of this suite, in order and yield each result at once; a failure is not raised."""
    for name, behaviour in behaviours().items():
        yield run_check(name, behaviour, sandbox)


def run_check(name: str, behaviour: Behaviour, sandbox: Sandbox) -> CheckResult:
    """Try one behaviour, a test of this suite, by its name in `behaviours`; a failure is returned, not raised."""
    claim = (behaviour.__doc__ or "").strip().splitlines()[0]
    try:
        _check_applicable(name, sandbox)
        behaviour(sandbox)
    except NotApplicable as reason:
        return CheckResult(name, claim, skip_reason=str(reason))
    except AssertionError as error:
        return CheckResult(name, claim, failure=str(error) or "an assertion failed")
    except Exception as error:  # the code of a provider may raise anything, and so may what it returns
        text = " ".join(str(error).split())
        return CheckResult(name, claim, failure=f"{type(error).__name__}: {text}".removesuffix(": "))
    return CheckResult(name, claim)


def _check_applicable(name: str, sandbox: Sandbox) -> None:
    """Raise NotApplicable for a whole module of behaviours that the sandbox does not promise."""
    module = name.partition(".")[0]
    if module == "sessions" and not sandbox.isolation.sessions:
        raise NotApplicable(f"tier '{sandbox.isolation.tier}' has no sessions")
    if module in ("isolation", "ruins"):
        require_protection(sandbox)
