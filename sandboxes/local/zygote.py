"""The process that all of a sandbox's processes are forked from: confines itself, loads packages, forks wardens.

A warden forks and ends candidates, the untrusted programs; both together are a place.

    host ── launcher ── zygote ── warden ── candidate
            (outside)   (jail: own mounts, pids, network)
                                  (own user ids, pids, ipc, network; one per place)
                                            (no capabilities, filtered system calls, limits; one per call)

It is started as a program of its own with an empty environment, so it inherits nothing of the host's memory. The
launcher only waits: when the host has ended, it ends the zygote, and with it the kernel ends everything else.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sandboxes.local import codec, identity, usage
from sandboxes.local.candidate import Confinement
from sandboxes.local.confinement import jail, landlock, syscalls
from sandboxes.local.confinement.box import Box, FolderBox, MountedBox
from sandboxes.local.confinement.cgroups import Group, Parent
from sandboxes.local.confinement.seccomp import Filter
from sandboxes.local.preload import load
from sandboxes.local.warden import Warden

FIRST_ID = 61000  # where root starts the sandbox: candidates get user ids from here on, two for each place
_ZYGOTE_NAMESPACES = syscalls.NEWNS | syscalls.NEWIPC | syscalls.NEWUTS | syscalls.NEWNET
_PLACE_NAMESPACES = _ZYGOTE_NAMESPACES | syscalls.NEWUSER | syscalls.NEWPID | syscalls.NEWCGROUP


def main(config: dict[str, Any], control: socket.socket) -> NoReturn:
    """Become the launcher, and fork the zygote, the process that all wardens (the processes of places) are forked from.

    `config` is made by `ZygoteClient`, whose socket `control` is connected to. A fault of the zygote is sent there.
    """
    is_root = os.geteuid() == 0
    parent = Parent.make() if config["namespaces"] else None
    if config["namespaces"]:
        if is_root:
            syscalls.unshare(syscalls.NEWPID)
        else:
            user, group = os.geteuid(), os.getegid()
            syscalls.set_dumpable(True)
            syscalls.unshare(syscalls.NEWUSER | syscalls.NEWPID)
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{jail.USER_ID} {user} 1")
            _write("/proc/self/gid_map", f"{jail.USER_ID} {group} 1")
    pid = os.fork()
    if pid:
        control.close()
        _run_launcher(pid, config["host"], parent, config["folder"])
    try:
        zygote, parent = Zygote(config, control, parent, is_root=is_root), None
        zygote.serve()
    except BaseException as fault:
        codec.send(control, {"error": f"{type(fault).__name__}: {fault}"})
    finally:
        os._exit(1)


def _run_launcher(zygote: int, host: int, parent: Parent | None, folder: str | None) -> NoReturn:
    """Wait until the zygote or the host has ended, end the zygote, and remove what is left."""
    poll = select.poll()
    try:
        host_pidfd = os.pidfd_open(host)
        poll.register(host_pidfd, select.POLLIN)
    except ProcessLookupError:
        os.kill(zygote, signal.SIGKILL)
    poll.register(os.pidfd_open(zygote), select.POLLIN)
    poll.poll()
    try:
        os.kill(zygote, signal.SIGKILL)
    finally:
        os.waitpid(zygote, 0)
        if parent:
            parent.remove()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


@dataclass
class Zygote:
    """Opens places (process trees that run untrusted programs) once it has confined itself and loaded the packages."""

    config: dict[str, Any]
    control: socket.socket
    parent: Parent | None
    is_root: bool
    groups: dict[int, Group] = field(default_factory=dict)

    def serve(self) -> None:
        """Confine this process, load the packages, then fork a place's warden for each message.

        A warden is the process that forks and ends a place's programs. Ends the process once the host has closed the
        socket. Raises OSError, or what an import raises, where the machine does not allow it.
        """
        syscalls.die_with_parent()
        if not self.config["namespaces"]:
            syscalls.set_dumpable(False)  # or programs, which are the same user, could open its memory
        if self.config["namespaces"]:
            syscalls.unshare(_ZYGOTE_NAMESPACES | syscalls.NEWCGROUP)
            socket.sethostname("box")
            jail.build(self.config["binds"], self.config["hidden"])
        self._load_packages()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's to handle; and pid 1 must have no handlers
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects ended wardens
        codec.send(self.control, {"ready": os.getpid(), "memory": "cgroup" if self.parent else "watch"})
        while True:
            try:
                message, [sock] = codec.receive(self.control)
            except EOFError:
                os._exit(0)
            try:
                pid = self._open_place(message["place"], sock)
                pidfd = os.pidfd_open(pid)
                codec.send(self.control, {"place": message["place"]}, [pidfd])
                os.close(pidfd)
            except OSError as fault:
                codec.send(self.control, {"error": f"{type(fault).__name__}: {fault}"})
            os.close(sock)

    def _load_packages(self) -> None:
        """Have Python search where the jail shows packages, and load those of the config."""
        sys.path[:] = self.config["import_path"]
        sys.path_importer_cache.clear()
        import site

        for define in (site.setquit, site.setcopyright, site.sethelper):
            define()
        load(self.config["preload"])

    def _open_place(self, place: int, sock: int) -> int:
        """Fork the warden of a place, which gets the socket, and return its pid. Raises OSError."""
        if not self.config["namespaces"]:
            pid = os.fork()
            if not pid:
                syscalls.die_with_parent()
                self._become_warden(place, sock)
            return pid
        if self.parent and place not in self.groups:
            self.groups[place] = Group.make(self.parent, str(place))
        report, report_end = os.pipe()
        wait_for_ids, ids_written = os.pipe()
        helper = os.fork()  # changes its own namespaces so that its child is born in them, and ends
        if not helper:
            try:
                if place in self.groups:  # the kernel waits for all cores when one is entered: not for each call
                    os.write(self.groups[place].procs_file, b"0")
                syscalls.unshare(_PLACE_NAMESPACES)
                os.write(report_end, b"x")
                os.read(wait_for_ids, 1)
                pid = os.fork()
                if not pid:
                    self._become_warden(place, sock)
                os.write(report_end, str(pid).encode())
            except BaseException as fault:
                os.write(report_end, f"!{fault}".encode())
            finally:
                os._exit(0)
        os.close(report_end)
        try:
            message = os.read(report, 1000)
            if message == b"x":
                self._map_ids(place, helper)
                os.write(ids_written, b"x")
                message = os.read(report, 1000)
            if not message.isdigit():
                raise OSError(message.decode().lstrip("!") or "the warden's parent died")
            return int(message)
        finally:
            for descriptor in (report, wait_for_ids, ids_written):
                os.close(descriptor)

    def _map_ids(self, place: int, pid: int) -> None:
        first = FIRST_ID + 2 * place
        lines = f"0 {first} 1\n{jail.USER_ID} {first + 1} 1\n" if self.is_root else f"{jail.USER_ID} {jail.USER_ID} 1\n"
        _write(f"/proc/{pid}/uid_map", lines)
        _write(f"/proc/{pid}/gid_map", lines)

    def _become_warden(self, place: int, sock: int) -> NoReturn:
        host = socket.socket(fileno=sock)
        try:
            self.control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            config, group = dict(self.config), self.groups.get(place)
            self.config.clear()  # programs see the objects of the functions that called them
            self.parent = None
            identity.hide_command_line()
            owner, proc, last_pid = None, os.open("/proc", os.O_PATH | os.O_DIRECTORY), None
            if config["namespaces"]:
                with suppress(OSError):  # a kernel without checkpoints has no such file
                    last_pid = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY)
                flags = syscalls.READ_ONLY | syscalls.NOSUID | syscalls.NODEV | syscalls.NOEXEC
                syscalls.mount("proc", "/proc", "proc", flags, "hidepid=2,subset=pid")
                if self.is_root:
                    owner = jail.USER_ID
                    os.setgroups([])
                    os.setresgid(0, 0, 0)
                    os.setresuid(0, 0, 0)
                syscalls.drop_bounding_set()
                box: Box = MountedBox(owner)
            else:
                box = FolderBox(f"{config['folder']}/{place}")
            syscalls.set_dumpable(False)
            syscalls.no_new_privileges()
            ruleset = None
            if config["rules"]:
                box.renew(0, 0)  # the rules are about folders that exist
                writable = [box.path, *(f"/dev/{name}" for name in ("null", "zero", "full"))]
                ruleset = landlock.Ruleset(config["readable"], writable)
            confinement = Confinement(
                box=box,
                proc=proc,
                base=usage.address_space(),
                filter=Filter(single_process=not config["namespaces"]),
                ruleset=ruleset,
                owner=owner,
                limit_processes=config["namespaces"],
            )
            own_processes = config.pop("namespaces")
            config.clear()
            Warden(host, confinement, group, own_processes=own_processes, last_pid=last_pid).serve()
        except BaseException as fault:
            codec.send(host, {"fault": f"{type(fault).__name__}: {fault}"})
        finally:
            os._exit(1)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
