"""Writing files and folders so that a kill leaves them complete or absent, and so that disk errors are one line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from rl.cli import UserError, remedy


@contextmanager
def disk_errors(prefix: str, way_on: str = "") -> Iterator[None]:
    """Turn errors of the operating system, such as a full disk, into a `UserError` "prefix: reason; remedy".

    The remedy depends on the error, such as "make room"; behind it comes `way_on`. Errors in which torch and
    safetensors wrap those of the system are included; other exceptions pass unchanged.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            native = re.search(r"I/O error: (.+) \(os error (\d+)\)", str(error))
            if native is None:
                raise
            cause = OSError(int(native[2]), native[1])
        reason = (cause.strerror or str(cause)).lower()
        raise UserError(f"{prefix}: {reason}; {remedy(cause.errno)}{way_on}") from error


def remove_folder(folder: Path) -> None:
    """Remove a folder. If the process is killed meanwhile, either all of it or nothing remains under its name."""
    trash = folder.with_name(f".{folder.name}.gone")
    folder.rename(trash)
    shutil.rmtree(trash)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file. If the process is killed meanwhile, it has either its old or its new content.

    Raises `OSError` if it cannot be written; the old content then stays.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        sync(partial)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def share_like(pattern: Path, *paths: Path) -> None:
    """Let whoever may read `pattern` read `paths` too, where the file system knows modes.

    `safetensors` writes files for their owner alone.
    """
    for path in paths:
        with suppress(OSError):
            path.chmod(pattern.stat().st_mode & 0o777)


def sync(path: Path) -> None:
    """Wait until the contents of a file or folder are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
