"""A small tree of files as plain data, and what a shell command makes of it in a sandbox."""

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
    """What lies at a path: its `kind` is "file", "folder", "link" or "other".

    `text` is a file's content, one character per byte, or where a link leads. `mode` has its permission bits; None in
    a tree that is wanted means that any will do.
    """

    kind: str
    text: str = ""
    mode: int | None = 0


Tree = dict[str, Entry]


class Ran(NamedTuple):
    """What a command did: the tree after it, its exit code and output; or in `stopped` why it did not reach its end."""

    tree: Tree
    code: int
    output: str
    stopped: str = ""


STOPPED = {
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


def read(plain: Mapping[str, Any]) -> Tree:
    """A tree from its JSON form."""
    return {path: Entry(*entry) for path, entry in sorted(plain.items())}


def written(tree: Tree) -> dict[str, Any]:
    """The JSON form of a tree."""
    return {path: list(entry) for path, entry in sorted(tree.items())}


def digest(tree: Tree) -> str:
    """A short text that is equal for equal trees."""
    return hashlib.blake2b(json.dumps(written(tree)).encode(), digest_size=8).hexdigest()


def command(sandbox: Sandbox, tree: Tree, line: str, *, timeout_s: float) -> Ran:
    """Run `sh -c line` in a place that holds the tree and nothing else, and read back what became of it.

    A command that is stopped, because it is too slow or asks for too much, changes nothing. No process outlives it.
    Times of files are always the same, and `ls` shows none; clocks, process numbers and inodes are as they are.
    Raises SandboxError for a fault of ours.
    """
    if not sandbox.shelter.children:
        raise SandboxError(f"in tier {sandbox.shelter.tier!r} of the sandbox a shell can start no program")
    ran = sandbox.run(
        _inside(),
        stdin=json.dumps({"tree": written(tree), "command": line}),
        fetch=("after.json",),
        env={"LC_ALL": "C", "TZ": "UTC", "TIME_STYLE": "+", "HOME": "/tmp", "COLUMNS": "80"},
        timeout_s=timeout_s,
        limits=Limits(cpu_s=timeout_s, memory_mb=256, disk_mb=16, files=1024, output_kb=OUTPUT_KB),
    )
    if ran.status is Status.FAILED and ran.exit_code == UNPREPARED:
        raise SandboxError(f"a tree of {len(tree)} files could not be made: {ran.stderr.strip()[-200:] or 'no word'}")
    after = _after(ran)
    if after is None:
        return Ran(tree, -1, "", STOPPED.get(ran.status, "too much"))
    return Ran(read(after["tree"]), int(after["code"]), ran.stdout + ran.stderr)


def _after(ran: Result) -> dict[str, Any] | None:
    """What the program inside wrote at its end, None if it did not get there."""
    if not ran.ok or "after.json" not in ran.files:
        return None
    return json.loads(ran.files["after.json"])


@cache
def _inside() -> str:
    return files("envs.code").joinpath("inside.py").read_text(encoding="utf-8")
