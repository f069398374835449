"""Reads files that untrusted programs have written, which may have laid traps: links, pipes, huge files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence


def read_files(folder: int, paths: Sequence[str], max_bytes: int) -> tuple[dict[str, bytes], dict[str, str]]:
    """Read the files at the relative `paths` below the folder whose open descriptor is `folder`.

    Returns their contents by path, and for each that cannot be read the reason by path. All contents together are at
    most `max_bytes` bytes: a file that does not fit into the rest is not read.
    """
    files: dict[str, bytes] = {}
    unread: dict[str, str] = {}
    for path in paths:
        try:
            files[path] = read_file(folder, path, max_bytes - sum(map(len, files.values())))
        except OSError as fault:
            unread[path] = fault.strerror or str(fault)
    return files, unread


def read_file(folder: int, path: str, max_bytes: int) -> bytes:
    """Read the regular file at the relative `path` below the folder whose open descriptor is `folder`.

    Follows no link, since a program could point it to a file of the host. Raises OSError if the file is missing, behind
    a link, not regular, or larger than `max_bytes` bytes.
    """
    *parents, name = path.strip("/").split("/")
    parent = os.dup(folder)
    try:
        for part in parents:
            child = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            os.close(parent)
            parent = child
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
    finally:
        os.close(parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # before `open`, which closes no descriptor of a folder
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no plain file", path)
    with open(descriptor, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"is larger than {max_bytes} bytes", path)
    return content
