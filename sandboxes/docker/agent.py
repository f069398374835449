"""The first process of a container: keeps a warden, which forks candidates, and speaks with the host for it.

    engine ── agent ── warden ── candidate
              (pid 1)  (root with six capabilities)
                                 (a user of its own, none; filtered system calls, limits; one per call)

As pid 1 it cannot be signalled from inside; when it ends, the kernel ends everything else. It ends when the host
closes its stdin, and that is what the host's own end does, too. The data of calls pass through it and never through the
warden, whose memory every candidate gets a copy of.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from sandboxes.local import codec, usage
from sandboxes.local.candidate import Cell
from sandboxes.local.confinement import jail, landlock, syscalls
from sandboxes.local.confinement.seccomp import Filter
from sandboxes.local.preload import load
from sandboxes.local.warden import Warden

USER_ID = 65534
_DEVICES = ("null", "zero", "full")
_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def main(config: dict[str, Any], leave: Callable[[], None]) -> NoReturn:
    """The program; `leave` gives up the modules that were sent. Its config: preload."""
    syscalls.set_dumpable(False)
    _prepare()
    load(config["preload"])
    ours, theirs = codec.pair()
    pid = os.fork()
    if not pid:
        ours.close()
        leave()
        _become_warden(theirs)
    theirs.close()
    from sandboxes.docker import dispatch  # not before the fork: it brings `threading` along

    leave()
    dispatch.Desk(ours, os.pidfd_open(pid)).serve()


def _prepare() -> None:
    """Make the box, and shut the doors that an engine leaves open for everybody."""
    os.umask(0o022)
    for name in jail.FOLDERS:
        os.makedirs(f"{jail.BOX}/{name}", exist_ok=True)
    if not os.path.lexists("/dev/shm"):
        os.symlink(f"{jail.BOX}/shm", "/dev/shm")
    for path in ("/dev/pts/ptmx", "/dev/mqueue"):
        with suppress(OSError):
            os.chmod(path, 0)
    with suppress(OSError):
        os.unlink("/dev/ptmx")


def _become_warden(wire: socket.socket) -> NoReturn:
    try:
        syscalls.die_with_parent()
        syscalls.adopt_orphans()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setgroups([])
        syscalls.no_new_privileges()
        rules = None
        if syscalls.landlock_version():  # a candidate could else tell the kernel to spare it when memory is short
            rules = landlock.Rules(["/"], [jail.BOX, *(f"/dev/{name}" for name in _DEVICES)])
        cell = Cell(
            home=jail.BOX,
            proc=os.open("/proc", os.O_PATH | os.O_DIRECTORY),
            base=usage.size(),
            filter=Filter(),
            rules=rules,
            owner=USER_ID,
            bounded=False,  # the engine bounds the number of processes
        )
        Warden(wire, cell, Kills.find(), apart=True, mounts=False).serve()
    except BaseException as fault:
        codec.send(wire, {"fault": f"{type(fault).__name__}: {fault}"})
    finally:
        os._exit(1)


class Kills:
    """The container's control group, seen from inside: its limits are the engine's, what they did can be read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def find(cls) -> Kills | None:
        """None where the engine shows no control group."""
        found = [path for path in map(Path, _EVENTS) if path.exists()]
        return cls(found[0]) if found else None

    def limit(self, memory_mb: int) -> None:
        """Was done by the engine."""

    def kills(self) -> int:
        """How many processes were killed here for memory so far."""
        found = re.search(r"^oom_kill (\d+)", self.path.read_text(), re.MULTILINE)
        return int(found.group(1)) if found else 0
