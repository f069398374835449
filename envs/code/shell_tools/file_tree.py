"""A small tree of files as plain data, and a shell command that changes it in a sandbox."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from envs.code.shell_tools.command_runner import UNPREPARED
from sandboxes import Limits, Result, Sandbox, SandboxError, Status

OUTPUT_KB = 64
PLAIN, RUNNABLE, FOLDER = 0o644, 0o755, 0o755


class Entry(NamedTuple):
    """What a path holds: its `kind` is "file", "folder", "link" or "other".

    `text` is the content of a file, one character per byte, or the target of a link. `mode` holds the permission bits;
    None, in a target tree, allows any.
    """

    kind: str
    text: str = ""
    mode: int | None = 0


Tree = dict[str, Entry]


class CommandResult(NamedTuple):
    """The tree after a command, its exit code and its output, stdout before stderr.

    `stop_reason` says why the command was stopped, "too slow" for one; it is "" if it was not, and then the code
    counts.
    """

    tree: Tree
    exit_code: int
    output: str
    stop_reason: str = ""


STOP_REASONS = {
    Status.TIMEOUT: "too slow",
    Status.CPU_LIMIT: "too slow",
    Status.MEMORY_LIMIT: "too much memory",
    Status.OUTPUT_LIMIT: "too much output",
}


def file(text: str = "", mode: int | None = PLAIN) -> Entry:
    """Make the entry of a plain file; `text` has one character per byte, a `mode` of None allows any."""
    return Entry("file", text, mode)


def folder(mode: int | None = FOLDER) -> Entry:
    """Make the entry of a folder; a `mode` of None allows any."""
    return Entry("folder", "", mode)


def from_json(data: Mapping[str, Any]) -> Tree:
    """Make a tree from its JSON form, `{"ab/c.txt": ["file", "text", 420], ...}`."""
    return {path: Entry(*entry) for path, entry in sorted(data.items())}


def to_json(tree: Tree) -> dict[str, Any]:
    """Return the JSON form of a tree, sorted by path: `{"ab/c.txt": ["file", "text", 420], ...}`."""
    return {path: list(entry) for path, entry in sorted(tree.items())}


def digest(tree: Tree) -> str:
    """Return a short hash of a tree in hex, equal for equal trees."""
    return hashlib.blake2b(json.dumps(to_json(tree)).encode(), digest_size=8).hexdigest()


def run_command(sandbox: Sandbox, tree: Tree, line: str, *, timeout_s: float) -> CommandResult:
    """Run `sh -c line` in a fresh folder that holds only the tree, and read the tree back.

    A command that is stopped, because it exceeds `timeout_s` (of CPU time or wall time) or another limit, changes
    nothing. No process outlives it. The times of files are always the same, and `ls` shows none; clocks, process
    numbers and inodes are the real ones. Raises SandboxError where the sandbox fails or allows no child processes.
    """
    if not sandbox.isolation.children:
        raise SandboxError(f"in tier {sandbox.isolation.tier!r} of the sandbox a shell can start no program")
    result = sandbox.run(
        _runner_program(),
        stdin=json.dumps({"tree": to_json(tree), "command": line}),
        fetch=("after.json",),
        env={"LC_ALL": "C", "TZ": "UTC", "TIME_STYLE": "+", "HOME": "/tmp", "COLUMNS": "80"},
        timeout_s=timeout_s,
        limits=Limits(cpu_s=timeout_s, memory_mb=256, disk_mb=16, files=1024, output_kb=OUTPUT_KB),
    )
    if result.status is Status.FAILED and result.exit_code == UNPREPARED:
        raise SandboxError(
            f"a tree of {len(tree)} files could not be made: {result.stderr.strip()[-200:] or 'no error output'}"
        )
    report = _runner_report(result)
    if report is None:
        return CommandResult(tree, -1, "", STOP_REASONS.get(result.status, "too much"))
    return CommandResult(from_json(report["tree"]), int(report["code"]), result.stdout + result.stderr)


def _runner_report(result: Result) -> dict[str, Any] | None:
    """The report that the command runner wrote at its end, None if it did not get there."""
    if not result.ok or "after.json" not in result.files:
        return None
    return json.loads(result.files["after.json"])


@cache
def _runner_program() -> str:
    return files("envs.code.shell_tools").joinpath("command_runner.py").read_text(encoding="utf-8")
