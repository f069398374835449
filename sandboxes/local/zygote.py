"""The process that all of a sandbox's processes come from: locks itself in, loads the packages, forks wardens.

    host ── launcher ── zygote ── warden ── candidate
            (outside)   (jail: own mounts, pids, network)
                                  (own user ids, pids, ipc, network; one per place)
                                            (no capabilities, filtered system calls, limits; one per call)

Started as a program of its own with an empty environment, so it inherits nothing of the host's memory. The launcher
only waits: it ends the zygote, and so the kernel everything else, when the host is gone.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sandboxes.local import codec, usage
from sandboxes.local.candidate import Cell
from sandboxes.local.confinement import jail, landlock, syscalls
from sandboxes.local.confinement.cgroups import Group, Parent
from sandboxes.local.confinement.seccomp import Filter
from sandboxes.local.preload import load
from sandboxes.local.warden import Warden

FIRST_ID = 61000  # root's candidates are the user ids from here on, two for each place
_APART = syscalls.NEWNS | syscalls.NEWIPC | syscalls.NEWUTS | syscalls.NEWNET
_PER_PLACE = _APART | syscalls.NEWUSER | syscalls.NEWPID | syscalls.NEWCGROUP


def main(config: dict[str, Any], control: socket.socket) -> NoReturn:
    """The program. Its config: host, folder, namespaces, rules, plan, import_path, preload."""
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
        _launcher(pid, config["host"], parent, config["folder"])
    try:
        Zygote(config, control, parent, is_root=is_root).serve()
    except BaseException as fault:
        codec.send(control, {"error": f"{type(fault).__name__}: {fault}"})
    finally:
        os._exit(1)


def _launcher(zygote: int, host: int, parent: Parent | None, folder: str | None) -> NoReturn:
    """Wait for the zygote's end, or bring it about when the host has ended; then clear away what is left."""
    poll = select.poll()
    try:
        watched = os.pidfd_open(host)
        poll.register(watched, select.POLLIN)
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
    """Locked in and loaded, it opens places."""

    config: dict[str, Any]
    control: socket.socket
    parent: Parent | None
    is_root: bool
    groups: dict[int, Group] = field(default_factory=dict)

    def serve(self) -> None:
        """Open a place for each message, until the host closes the wire."""
        syscalls.die_with_parent()
        if self.config["namespaces"]:
            syscalls.unshare(_APART | syscalls.NEWCGROUP)
            socket.sethostname("box")
            jail.build(self.config["binds"], self.config["hidden"])
        self._load()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's to handle; and pid 1 must have no handlers
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens collect themselves
        codec.send(self.control, {"ready": os.getpid(), "memory": "cgroup" if self.parent else "watch"})
        while True:
            try:
                message, [wire] = codec.receive(self.control)
            except EOFError:
                os._exit(0)
            try:
                pid = self._open(message["place"], wire)
                pidfd = os.pidfd_open(pid)
                codec.send(self.control, {"place": message["place"]}, [pidfd])
                os.close(pidfd)
            except OSError as fault:
                codec.send(self.control, {"error": f"{type(fault).__name__}: {fault}"})
            os.close(wire)

    def _load(self) -> None:
        """Have Python find the packages where the jail shows them, and load those that are wanted."""
        sys.path[:] = self.config["import_path"]
        sys.path_importer_cache.clear()
        import site

        for define in (site.setquit, site.setcopyright, site.sethelper):
            define()
        load(self.config["preload"])

    def _open(self, place: int, wire: int) -> int:
        """Fork a warden; its pid."""
        if not self.config["namespaces"]:
            pid = os.fork()
            if not pid:
                syscalls.die_with_parent()
                self._become_warden(place, wire)
            return pid
        if self.parent and place not in self.groups:
            self.groups[place] = Group.make(self.parent, str(place))
        told, tell = os.pipe()
        mapped, map_done = os.pipe()
        between = os.fork()  # it changes its own namespaces for its child's sake, and ends
        if not between:
            try:
                if place in self.groups:  # entering one makes the kernel wait for all cores: not for each call
                    os.write(self.groups[place].entrance, b"0")
                syscalls.unshare(_PER_PLACE)
                os.write(tell, b"x")
                os.read(mapped, 1)
                pid = os.fork()
                if not pid:
                    self._become_warden(place, wire)
                os.write(tell, str(pid).encode())
            except BaseException as fault:
                os.write(tell, f"!{fault}".encode())
            finally:
                os._exit(0)
        os.close(tell)
        try:
            first = os.read(told, 1000)
            if first == b"x":
                self._map_users(place, between)
                os.write(map_done, b"x")
                first = os.read(told, 1000)
            if not first.isdigit():
                raise OSError(first.decode().lstrip("!") or "the warden's parent died")
            return int(first)
        finally:
            for descriptor in (told, mapped, map_done):
                os.close(descriptor)

    def _map_users(self, place: int, pid: int) -> None:
        first = FIRST_ID + 2 * place
        lines = f"0 {first} 1\n{jail.USER_ID} {first + 1} 1\n" if self.is_root else f"{jail.USER_ID} {jail.USER_ID} 1\n"
        _write(f"/proc/{pid}/uid_map", lines)
        _write(f"/proc/{pid}/gid_map", lines)

    def _become_warden(self, place: int, wire: int) -> NoReturn:
        host = socket.socket(fileno=wire)
        try:
            self.control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            group, mounts = self.groups.get(place), self.config["namespaces"]
            home = jail.BOX if mounts else f"{self.config['folder']}/{place}"
            owner, proc = None, os.open("/proc", os.O_PATH | os.O_DIRECTORY)
            if mounts:
                flags = syscalls.READ_ONLY | syscalls.NOSUID | syscalls.NODEV | syscalls.NOEXEC
                syscalls.mount("proc", "/proc", "proc", flags, "hidepid=2,subset=pid")
                if self.is_root:
                    owner = jail.USER_ID
                    os.setgroups([])
                    os.setresgid(0, 0, 0)
                    os.setresuid(0, 0, 0)
                syscalls.drop_bounding_set()
            else:
                os.makedirs(home, 0o700, exist_ok=True)
            syscalls.set_dumpable(False)
            syscalls.no_new_privileges()
            rules = None
            if self.config["rules"]:
                readable = self.config["readable"]
                rules = landlock.Rules(readable, [home, *(f"/dev/{name}" for name in ("null", "zero", "full"))])
            cell = Cell(
                home=home,
                proc=proc,
                base=usage.size(),
                filter=Filter(alone=not mounts),
                rules=rules,
                owner=owner,
                bounded=mounts,
            )
            Warden(host, cell, group, apart=mounts, mounts=mounts).serve()
        except BaseException as fault:
            codec.send(host, {"fault": f"{type(fault).__name__}: {fault}"})
        finally:
            os._exit(1)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
