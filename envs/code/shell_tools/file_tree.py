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
    """The tree after a command, its exit code and output; `stop_reason` says why it was stopped, "" if it was not."""

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
    """A plain file."""
    return Entry("file", text, mode)


def folder(mode: int | None = FOLDER) -> Entry:
    """A folder."""
    return Entry("folder", "", mode)


def from_json(data: Mapping[str, Any]) -> Tree:
    """A tree from its JSON form."""
    return {path: Entry(*entry) for path, entry in sorted(data.items())}


def to_json(tree: Tree) -> dict[str, Any]:
    """The JSON form of a tree."""
    return {path: list(entry) for path, entry in sorted(tree.items())}


def digest(tree: Tree) -> str:
    """A short hash of a tree, equal for equal trees."""
    return hashlib.blake2b(json.dumps(to_json(tree)).encode(), digest_size=8).hexdigest()


def run_command(sandbox: Sandbox, tree: Tree, line: str, *, timeout_s: float) -> CommandResult:
    """Run `sh -c line` in a fresh place that holds only the tree, and read the tree back.

    A command that is stopped, because it exceeds `timeout_s` or another limit, changes nothing. No process outlives it.
    The times of files are always the same, and `ls` shows none; clocks, process numbers and inodes are the real ones.
    Raises SandboxError where the sandbox fails or allows no child processes.
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
