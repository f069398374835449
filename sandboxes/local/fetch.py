"""Files out of a place whose inhabitant may have laid traps."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence


def read_files(folder: int, paths: Sequence[str], max_bytes: int) -> tuple[dict[str, bytes], dict[str, str]]:
    """Those that can be read, together at most `max_bytes`, and why the others cannot."""
    files: dict[str, bytes] = {}
    unread: dict[str, str] = {}
    for path in paths:
        try:
            files[path] = read_file(folder, path, max_bytes - sum(map(len, files.values())))
        except OSError as fault:
            unread[path] = fault.strerror or str(fault)
    return files, unread


def read_file(folder: int, path: str, max_bytes: int) -> bytes:
    """A plain file's content. No link is followed: its maker would have us read our own files."""
    *parents, name = path.strip("/").split("/")
    held = os.dup(folder)
    try:
        for parent in parents:
            inner = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = inner
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held)
    finally:
        os.close(held)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no plain file", path)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"is larger than {max_bytes} bytes", path)
    return content
