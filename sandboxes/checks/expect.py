"""How a behaviour says what it found."""

from __future__ import annotations

from sandboxes.types import Result, Sandbox, Status


class Missing(Exception):
    """The behaviour does not apply; the text says what the sandbox does not promise."""


def expect(condition: object, what: str) -> None:
    """Raise AssertionError with `what` unless the condition holds."""
    if not condition:
        raise AssertionError(what)


def same(found: object, wanted: object) -> None:
    """Raise AssertionError unless both are equal."""
    if found != wanted:
        raise AssertionError(f"found {found!r:.300}, wanted {wanted!r:.300}")


def ended(result: Result, *statuses: Status) -> None:
    """Raise AssertionError unless the call ended in one of these ways."""
    told = result.stderr.strip().rpartition("\n")[2] or result.error
    expect(result.status in statuses, f"status {result.status}, wanted {' or '.join(statuses)}: {told:.300}")


def printed(sandbox: Sandbox, program: str | list[str], **words: object) -> str:
    """What a program printed, without the last line's end. It must end well."""
    result = sandbox.run(program, **words)  # type: ignore[arg-type]
    ended(result, Status.OK)
    return result.stdout.rstrip("\n")


def needs_children(sandbox: Sandbox) -> None:
    """Raise Missing where programs cannot start processes."""
    if not sandbox.shelter.children:
        raise Missing(f"tier '{sandbox.shelter.tier}' lets no process be started or signalled")


def needs_files_apart(sandbox: Sandbox) -> None:
    """Raise Missing where a program sees the host's files."""
    if sandbox.shelter.tier == "process":
        raise Missing("tier 'process' protects no files")
