"""The agent, first process of a container: starts a warden, which forks and ends candidates (untrusted programs).

    engine ── agent ── warden ── candidate
              (pid 1)  (root with six capabilities)
                                 (a user of its own, none; filtered system calls, limits; one per call)

It connects the warden to the host. As pid 1 it cannot be signalled from inside; when it ends, the kernel ends
everything else. It ends when the host closes its stdin, which also happens when the host itself ends. The data of calls
pass through it and never through the warden, whose memory is copied to every candidate.
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

from sandboxes.local import codec, identity, usage
from sandboxes.local.candidate import Confinement
from sandboxes.local.confinement import landlock, syscalls
from sandboxes.local.confinement.box import BOX, FOLDERS, FolderBox
from sandboxes.local.confinement.seccomp import Filter
from sandboxes.local.preload import load
from sandboxes.local.warden import Warden

USER_ID = 65534
_DEVICES = ("null", "zero", "full")
_EVENT_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def main(config: dict[str, Any], forget_modules: Callable[[], None]) -> NoReturn:
    """Fork the warden, the process that runs untrusted programs, and serve the host until it closes stdin.

    `config` has "preload", names of packages to import before. `forget_modules` removes this project's modules, which
    were sent to the container, so that programs cannot import them.
    """
    syscalls.set_dumpable(False)
    _prepare_container()
    load(config["preload"])
    agent_end, warden_end = codec.socket_pair()
    pid = os.fork()
    if not pid:
        agent_end.close()
        forget_modules()
        _become_warden(warden_end)
    warden_end.close()
    from sandboxes.docker import dispatch  # after the fork, as it imports `threading`

    forget_modules()
    dispatch.Dispatcher(agent_end, os.pidfd_open(pid)).serve()


def _prepare_container() -> None:
    """Make the box, and close what an engine leaves open for everybody."""
    os.umask(0o022)
    for name in FOLDERS:
        os.makedirs(f"{BOX}/{name}", exist_ok=True)
    if not os.path.lexists("/dev/shm"):
        os.symlink(f"{BOX}/shm", "/dev/shm")
    for path in ("/dev/pts/ptmx", "/dev/mqueue"):
        with suppress(OSError):
            os.chmod(path, 0)
    with suppress(OSError):
        os.unlink("/dev/ptmx")


def _become_warden(sock: socket.socket) -> NoReturn:
    try:
        syscalls.die_with_parent()
        syscalls.adopt_orphans()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        identity.hide_command_line()
        os.setgroups([])
        syscalls.no_new_privileges()
        ruleset = None
        if syscalls.landlock_version():  # otherwise a candidate could tell the kernel to spare it when memory is short
            ruleset = landlock.Ruleset(["/"], [BOX, *(f"/dev/{name}" for name in _DEVICES)])
        confinement = Confinement(
            box=FolderBox(BOX, owner=USER_ID),
            proc=os.open("/proc", os.O_PATH | os.O_DIRECTORY),
            base=usage.address_space(),
            filter=Filter(),
            ruleset=ruleset,
            owner=USER_ID,
            limit_processes=False,  # the engine limits the number of processes
        )
        Warden(sock, confinement, ContainerGroup.find(), own_processes=True).serve()
    except BaseException as fault:
        codec.send(sock, {"fault": f"{type(fault).__name__}: {fault}"})
    finally:
        os._exit(1)


class ContainerGroup:
    """The container's control group, seen from inside: the engine has set its limit, and its counters can be read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def find(cls) -> ContainerGroup | None:
        """Return the container's control group, or None where the engine shows none."""
        paths = [path for path in map(Path, _EVENT_FILES) if path.exists()]
        return cls(paths[0]) if paths else None

    def limit(self, memory_mb: int) -> None:
        """Do nothing: the engine has set the limit."""

    def oom_kills(self) -> int:
        """How many processes of the container were killed for exceeding the limit so far."""
        match = re.search(r"^oom_kill (\d+)", self.path.read_text(), re.MULTILINE)
        return int(match.group(1)) if match else 0
