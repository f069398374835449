"""Writing files and folders so that a kill leaves them complete or absent, and so that disk errors are one line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from rl.cli import UserError


@contextmanager
def disk_errors(prefix: str, suffix: str = "") -> Iterator[None]:
    """Turn errors of the operating system, such as a full disk, into a `UserError` "prefix: reason" + suffix.

    Errors in which torch and safetensors wrap those of the system are included; other exceptions pass unchanged.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        native = re.search(r"I/O error: (.+) \(os error \d+\)", str(error))
        if not isinstance(cause, OSError) and native is None:
            raise
        reason = (cause.strerror or str(cause)) if isinstance(cause, OSError) else native[1]  # type: ignore[index]
        raise UserError(f"{prefix}: {reason.lower()}{suffix}") from error


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


def sync(path: Path) -> None:
    """Wait until the contents of a file or folder are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
