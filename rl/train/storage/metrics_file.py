"""The file `metrics.jsonl` of a run when it is resumed: which lines stay, and whether it is still what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl import checksums
from rl.train.storage.durable_files import replace_file


def fingerprint(path: Path) -> dict[str, Any]:
    """Return the length in bytes and the digest of the file, for a checkpoint; an absent file counts as empty."""
    content = path.read_bytes() if path.exists() else b""
    return {"bytes": len(content), "sha256": checksums.digest(content)}


def rewind(path: Path, update: int, fingerprint: Mapping[str, Any] | None = None) -> list[str]:
    """Remove the lines of all updates after `update`, lines that cannot be read, and an incomplete last line.

    If lines cannot be read, or the beginning of the file does not have the `fingerprint` that the checkpoint recorded,
    the file as it was is kept beside it. Returns a line that says so, or nothing. Raises `OSError` if the files cannot
    be written.
    """
    content = path.read_bytes() if path.exists() else b""
    *lines, _ = content.split(b"\n")  # what follows the last line break was not written completely before a kill
    updates = [_update_of(line) for line in lines]
    faults = []
    if unreadable := updates.count(None):
        faults.append(f"{unreadable} of its {len(lines)} lines cannot be read and are removed")
    if fingerprint and checksums.digest(content[: fingerprint["bytes"]]) != fingerprint["sha256"]:
        faults.append("it is not what the run wrote (wrong SHA-256)")
    notes = []
    if faults:
        notes.append(f"{path} is damaged: {'; '.join(faults)}")
        if path.exists():
            copy = _free_name(path)
            copy.write_bytes(content)
            notes[0] += f"; {copy.name} is a copy of it"
    remaining = [line for line, number in zip(lines, updates, strict=True) if number is not None and number <= update]
    if path.exists():
        replace_file(path, b"".join(line + b"\n" for line in remaining))
    return notes


def _update_of(line: bytes) -> int | None:
    """The number of the update that a line is about; None if it cannot be read."""
    try:
        update = json.loads(line)["update"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return update if type(update) is int else None


def _free_name(path: Path) -> Path:
    """`metrics.jsonl.damaged`, or the first of `metrics.jsonl.damaged-2`, ... that does not exist."""
    name, number = path.with_name(f"{path.name}.damaged"), 1
    while name.exists():
        number += 1
        name = path.with_name(f"{path.name}.damaged-{number}")
    return name
