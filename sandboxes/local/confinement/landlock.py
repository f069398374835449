"""Limits on file access by Landlock, for kernels that forbid namespaces."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from sandboxes.local.confinement import syscalls

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}  # by version
_TCP = 3  # bind and connect, from version 4
_SCOPES = 3  # abstract sockets and signals, from version 6
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15


class Ruleset:
    """Which files may be read and written; made once and applied in each candidate (untrusted program)."""

    def __init__(self, readable: Sequence[str], writable: Sequence[str]) -> None:
        """Allow to read and execute below `readable`, to read and write below `writable`; missing paths are skipped.

        Raises OSError where the kernel has no Landlock.
        """
        version = syscalls.landlock_version()
        if not version:
            raise OSError("the kernel has no Landlock, or hides it")
        all_rights = _ALL_RIGHTS[min(version, 5)]
        attributes = struct.pack("=QQQ", all_rights, _TCP, _SCOPES)
        size = 8 if version < 4 else 16 if version < 6 else 24
        self.descriptor = syscalls.landlock_ruleset(attributes[:size])
        for path in readable:
            self._allow(path, _EXECUTE | _READ_FILE | _READ_DIR)
        for path in writable:
            self._allow(path, all_rights & ~_EXECUTE)

    def _allow(self, path: str, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        if not os.path.isdir(path):
            rights &= _FILE_RIGHTS
        syscalls.landlock_allow(self.descriptor, rights, descriptor)
        os.close(descriptor)

    def apply(self) -> None:
        """Apply the rules to this process, which must have called `no_new_privileges` before. Can be done once."""
        syscalls.landlock_restrict(self.descriptor)
        os.close(self.descriptor)
