"""The Linux system calls that Python lacks, by ctypes. Each raises an OSError that names the call."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from typing import Any

from sandboxes.local.confinement.seccomp import Filter, architecture

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NOSUID, NODEV, NOEXEC, BIND, REC, PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
READ_ONLY_ATTRIBUTES = 1 | 2 | 4  # MOUNT_ATTR_RDONLY, _NOSUID, _NODEV
COLLAPSE = 25  # madvise: gather these pages into one huge page, now (Linux 6.1)

_DETACH, _AT_RECURSIVE, _AT_FDCWD = 2, 0x8000, -100
_SET_DUMPABLE, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT, _SET_PDEATHSIG, _SUBREAPER = 4, 24, 38, 47, 1, 36
_NUMBERS = {  # pivot_root, seccomp, capset; mount_setattr and landlock are 442, 444 to 446 everywhere
    "x86_64": (155, 317, 126),
    "aarch64": (41, 277, 91),
}


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Enter new namespaces: `flags` are NEWNS, NEWPID and so on, joined by `|`.

    A new pid namespace is entered by the next child.
    """
    _call("unshare", flags)


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    """Mount a file system of the type `kind`, such as "tmpfs", at `target`, or (BIND) show `source` there too.

    `kind` is None for BIND; `flags` are BIND, NOSUID and so on, joined by `|`; `options` are those of the file system,
    such as "size=4m".
    """
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _call("mount", texts[0], texts[1], texts[2], flags, texts[3])


def unmount(target: str) -> None:
    """Detach a mount; it is removed once nothing uses it any more."""
    _call("umount2", os.fsencode(target), _DETACH)


def make_read_only(target: str, *, recursive: bool) -> None:
    """Make a mount read-only, without devices and set-user-id; with `recursive` also all mounts below it."""
    attributes = struct.pack("QQQQ", READ_ONLY_ATTRIBUTES, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    _syscall("mount_setattr", 442, _AT_FDCWD, os.fsencode(target), flags, attributes, len(attributes))


def pivot_root() -> None:
    """Make the working directory, a mount, the root, and detach the old one."""
    _syscall("pivot_root", _NUMBERS[architecture()][0], b".", b".")
    unmount(".")
    os.chdir("/")


def set_dumpable(value: bool) -> None:
    """Set whether other processes of the same user may trace this one and read its memory."""
    _call("prctl", _SET_DUMPABLE, int(value), 0, 0, 0)


def no_new_privileges() -> None:
    """Make set-user-id programs give no rights, in this process and all its descendants."""
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel SIGKILL this process when the thread that forked it ends. A change of uid undoes it."""
    _call("prctl", _SET_PDEATHSIG, 9, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ended."""
    _call("prctl", _SUBREAPER, 1, 0, 0, 0)


def drop_bounding_set() -> None:
    """Make sure that no capability can be gained by running a program."""
    libc = _libc()
    for capability in range(64):
        if libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break


def drop_capabilities() -> None:
    """Give up every capability of this process."""
    _call("prctl", _CAP_AMBIENT, 4, 0, 0, 0)
    _syscall("capset", _NUMBERS[architecture()][2], struct.pack("=Ii", 0x20080522, 0), bytes(24))


def install(filter: Filter) -> None:
    """Install a system-call filter for this thread and all its descendants."""
    _syscall("seccomp", _NUMBERS[architecture()][1], 1, 0, filter.struct)


def landlock_version() -> int:
    """Return the version of Landlock's interface, or 0 where the kernel has none or hides it."""
    return max(0, _libc().syscall(*map(_to_long, (444, None, 0, 1))))


def landlock_ruleset(attributes: bytes) -> int:
    """Make a Landlock ruleset and return its file descriptor. `attributes` is a packed `landlock_ruleset_attr`."""
    return _syscall("landlock_create_ruleset", 444, attributes, len(attributes), 0)


def landlock_allow(ruleset: int, rights: int, directory: int) -> None:
    """Allow `rights`, bits of LANDLOCK_ACCESS_FS, for the file or below the directory with this open descriptor."""
    _syscall("landlock_add_rule", 445, ruleset, 1, struct.pack("=Qi", rights, directory), 0)


def landlock_restrict(ruleset: int) -> None:
    """Apply the Landlock ruleset with this descriptor to this thread and all its descendants."""
    _syscall("landlock_restrict_self", 446, ruleset, 0)


def advise(address: int, length: int, advice: int) -> bool:
    """Tell the kernel how to treat `length` bytes of memory from `address` on, by madvise(2), such as COLLAPSE.

    Returns whether the kernel accepted it.
    """
    return _libc().madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), advice) == 0


def _call(name: str, *arguments: Any) -> int:
    return _check(name, getattr(_libc(), name)(*map(_to_long, arguments)))


def _syscall(name: str, number: int, *arguments: Any) -> int:
    return _check(name, _libc().syscall(ctypes.c_long(number), *map(_to_long, arguments)))


def _to_long(argument: Any) -> Any:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _check(name: str, value: int) -> int:
    if value < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return value
