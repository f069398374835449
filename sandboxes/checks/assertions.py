"""Assertions of the conformance suite, which raise AssertionError with what was observed."""

from __future__ import annotations

from sandboxes.provider import Sandbox
from sandboxes.types import Result, Status


class NotApplicable(Exception):
    """The behaviour does not apply; the message says what the sandbox does not promise."""


def expect(condition: object, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def expect_equal(actual: object, expected: object) -> None:
    """Raise AssertionError unless both are equal."""
    if actual != expected:
        raise AssertionError(f"{actual!r:.300} instead of {expected!r:.300}")


def expect_status(result: Result, *statuses: Status) -> None:
    """Raise AssertionError unless the result has one of these statuses."""
    reason = result.stderr.strip().rpartition("\n")[2] or result.error
    expect(result.status in statuses, f"status {result.status} instead of {' or '.join(statuses)}: {reason:.300}")


def output_of(sandbox: Sandbox, program: str | list[str], **kwargs: object) -> str:
    """Run a program, with `kwargs` of `Sandbox.run`, and return its stdout without newlines at the end.

    Raises AssertionError unless it ends with OK.
    """
    result = sandbox.run(program, **kwargs)  # type: ignore[arg-type]
    expect_status(result, Status.OK)
    return result.stdout.rstrip("\n")


def require_children(sandbox: Sandbox) -> None:
    """Raise NotApplicable where programs cannot start processes."""
    if not sandbox.isolation.children:
        raise NotApplicable(f"tier '{sandbox.isolation.tier}' lets no process be started or signalled")


def require_protection(sandbox: Sandbox) -> None:
    """Raise NotApplicable where a program that attacks the machine, or exceeds a limit, could succeed by design."""
    if not sandbox.isolation.protects:
        raise NotApplicable(f"tier '{sandbox.isolation.tier}' protects nothing")


def require_file_isolation(sandbox: Sandbox) -> None:
    """Raise NotApplicable where programs see the host's files by design."""
    if sandbox.isolation.tier == "process":
        raise NotApplicable("tier 'process' protects no files")
