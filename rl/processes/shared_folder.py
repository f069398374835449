"""A folder for files that one process writes and others read, in memory where there is room."""

from __future__ import annotations

import os
import shutil
import tempfile

SHARED_MEMORY = "/dev/shm"  # a file system in memory
SPARE_BYTES = 64 << 20  # that stay free in it


def make_folder(size: int) -> str:
    """Create a folder for a file of `size` bytes and return its path, in shared memory if it fits, else on the disk."""
    fits = os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free >= size + SPARE_BYTES
    return tempfile.mkdtemp(prefix="turnwise-", dir=SHARED_MEMORY if fits else None)
