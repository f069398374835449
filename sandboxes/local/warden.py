"""The process that forks candidates and ends them: one per place, the first process of its pid namespace.

It holds no data of a call: work and output pass between host and candidate directly, so nothing of one call can be
found in the memory of the next. A stateless place is emptied after each call; a session's lives as long as its wire.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from sandboxes.local import candidate, codec, interpreter, usage
from sandboxes.local.candidate import Cell
from sandboxes.local.confinement import jail, syscalls
from sandboxes.local.heap import gather_pages

TICK_S, IDLE_TICK_S = 0.025, 1.0  # between looks at what a place uses, while a call runs and between calls
SETTLED = 4  # calls after which a warden's own pages are where they will stay
PATIENCE_S = 0.4  # for killed processes to be gone; a place where they are not is given up


@dataclass(slots=True)
class Child:
    """A candidate's first process. `deadline` is None between the cells of a session."""

    pid: int
    pidfd: int
    key: int
    began: float
    deadline: float | None
    once: bool
    fetch: bool
    why: str | None = None


class Memory(Protocol):
    """Who bounds the memory of all processes of a place together."""

    def limit(self, memory_mb: int) -> None:
        """Let them use that much."""

    def kills(self) -> int:
        """How many were killed for using more, so far."""


class Warden:
    """Serves one host on one wire until that closes."""

    def __init__(self, wire: socket.socket, cell: Cell, group: Memory | None, *, apart: bool, mounts: bool) -> None:
        """`apart`: all processes that it can signal are those of its place. `mounts`: it may mount fresh boxes."""
        self.wire, self.cell, self.group, self.apart, self.mounts = wire, cell, group, apart, mounts
        self.children: dict[int, Child] = {}  # by pidfd
        self.limits: dict[str, Any] = {}
        self.box = (0, 0)
        self.poll = select.poll()
        self.poll.register(wire, select.POLLIN)
        self.spent_s, self.kills = 0.0, 0  # CPU time, and kills for memory, before the call that runs now
        self.looked = self.pause = 0.0
        self.count = self.at_start = 0  # stateless calls; bytes of memory when it began

    def serve(self) -> NoReturn:
        """Do as the host says; the process ends here, and the kernel ends all others with it."""
        work = jail.WORK if self.apart else f"{self.cell.home}/work"
        os.environ.update(HOME=work, TMPDIR="/tmp" if self.apart else f"{self.cell.home}/tmp")
        self._renew(64, 4096)
        self.at_start = usage.resident()
        while True:
            wait = min(self._wait_s(), IDLE_TICK_S if self.children else 3600)
            for descriptor, _ in self.poll.poll(wait * 1000):
                if child := self.children.get(descriptor):
                    self._finish(child)
                else:
                    try:
                        message, descriptors = codec.receive(self.wire)
                    except EOFError:
                        self._kill_all()
                        os._exit(0)
                    self._obey(message, descriptors)
            if self.children:
                self._look()

    def _obey(self, message: dict[str, Any], descriptors: list[int]) -> None:
        match message["do"]:
            case "start":
                self._start(message, descriptors)
            case "watch":
                self._set_deadline(message["key"], time.monotonic() + message["timeout_s"])
            case "rest":
                self._set_deadline(message["key"], None)
            case "look":
                others = usage.processes() if self.apart else self.children
                codec.send(self.wire, {"others": len(others), "grown": usage.resident() - self.at_start})
            case "interrupt" | "kill":
                for child in list(self.children.values()):
                    if child.key == message["key"]:
                        self._signal(child, signal.SIGINT if message["do"] == "interrupt" else signal.SIGKILL)

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        limits = self.limits = message["limits"]
        if self.box != (limits["disk_mb"], limits["files"]) or (message["once"] and not self.mounts):
            self._renew(limits["disk_mb"], limits["files"])
        if self.group:
            self.group.limit(limits["memory_mb"] + limits["disk_mb"])  # a full disk must leave room for ourselves
        self._count_from_here()
        began = time.monotonic()
        pid = os.fork()
        if not pid:
            self._become_candidate(message, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        pidfd = os.pidfd_open(pid)
        deadline = None if message["cells"] else began + message["timeout_s"]
        self.children[pidfd] = Child(pid, pidfd, message["key"], began, deadline, message["once"], message["fetch"])
        self.poll.register(pidfd, select.POLLIN)
        self.looked, self.pause = began, TICK_S

    def _become_candidate(self, message: dict[str, Any], descriptors: list[int]) -> NoReturn:
        """In the child. A fault before `STARTED` is ours, and is told on the channel."""
        try:
            cpu_s = None if message["cells"] else int(message["limits"]["cpu_s"]) + 2  # the warden looks closer
            candidate.lock_in(self.cell, descriptors, message["limits"], cpu_s)
            if message["cells"]:
                interpreter.serve()
            candidate.run(self.cell)
        except BaseException as fault:
            told = codec.BROKEN + f"{type(fault).__name__}: {fault}".encode()[:1000]
            for channel in (descriptors[0], candidate.CHANNEL):  # before and after it was moved
                with suppress(OSError):
                    os.write(channel, told)
        finally:
            os._exit(125)

    def _finish(self, child: Child) -> None:
        """Collect a candidate that has ended; where it was alone, empty the place."""
        _, status, used = os.wait4(child.pid, 0)
        self.poll.unregister(child.pidfd)
        os.close(child.pidfd)
        del self.children[child.pidfd]
        clean = self._kill_all() if child.once else True
        code = os.waitstatus_to_exitcode(status)
        if code and not child.why and self.group and self.group.kills() > self.kills:
            child.why = "memory"
        spent_s = self._cpu_s() - self.spent_s
        if code in (-signal.SIGXCPU, -signal.SIGKILL) and not child.why and spent_s > self.limits["cpu_s"]:
            child.why = "cpu"
        answer = {
            "ended": child.key,
            "code": code,
            "why": child.why,
            "wall_s": time.monotonic() - child.began,
            "cpu_s": spent_s,
            "memory_mb": used.ru_maxrss / 1024,
            "clean": clean,
        }
        held = [os.open(f"{self.cell.home}/work", os.O_RDONLY | os.O_DIRECTORY)] if child.fetch else []
        codec.send(self.wire, answer, held)
        for descriptor in held:
            os.close(descriptor)
        if not clean:
            os._exit(1)
        if child.once:
            if self.mounts:  # a plain folder is emptied before the next call: the host may still read this one's files
                self._renew(*self.box)
            self.count += 1
            if self.count == SETTLED:
                gather_pages()

    def _look(self) -> None:
        """End what is over its deadline or over a limit."""
        now = time.monotonic()
        for child in list(self.children.values()):
            if child.deadline is not None and now >= child.deadline and not child.why:
                child.why = "timeout"
                self._signal(child, signal.SIGKILL)
        resting = all(child.deadline is None for child in self.children.values())
        if now - self.looked < (IDLE_TICK_S if resting else self.pause):
            return
        self._reap_strays()
        why = self._over_limit()
        if why:
            for child in self.children.values():
                child.why = child.why or why
            self._signal_all()
        self.looked = time.monotonic()
        self.pause = max(TICK_S, 4 * (self.looked - now))

    def _over_limit(self) -> str | None:
        pids = usage.processes() if self.apart else [child.pid for child in self.children.values()]
        used = usage.usage(pids)
        if used.cpu_s + self._collected_s() - self.spent_s > self.limits["cpu_s"]:
            return "cpu"
        most = self.limits["memory_mb"] << 20
        if not self.group and used.resident > most and usage.memory(pids, most) > most:
            return "memory"
        return None

    def _set_deadline(self, key: int, deadline: float | None) -> None:
        for child in self.children.values():
            if child.key == key:
                child.deadline = deadline
        self._count_from_here()
        self.pause = TICK_S

    def _count_from_here(self) -> None:
        self.spent_s = self._cpu_s()
        self.kills = self.group.kills() if self.group else 0

    def _cpu_s(self) -> float:
        """CPU time of all candidates so far, those that run included."""
        if not self.children:
            return self._collected_s()
        pids = usage.processes() if self.apart else [child.pid for child in self.children.values()]
        return usage.usage(pids).cpu_s + self._collected_s()

    @staticmethod
    def _collected_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def _signal(self, child: Child, number: int) -> None:
        """To the candidate; SIGKILL also to its process group, and in a session's interpreter to the whole place."""
        if number == signal.SIGKILL and child.deadline is None:
            self._signal_all()
            return
        os.kill(child.pid, number)
        if number == signal.SIGKILL and self.apart:
            with suppress(OSError):
                os.killpg(child.pid, number)

    def _signal_all(self) -> None:
        """SIGKILL to everything here. In a pid namespace -1 is all but its first process and this; no fork slips by."""
        if self.apart:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            for child in self.children.values():
                os.kill(child.pid, signal.SIGKILL)

    def _kill_all(self) -> bool:
        """End and collect everything; False where something would not go in time."""
        self._signal_all()
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0.0005)

    def _reap_strays(self) -> None:
        """Collect ended processes whose own parents are gone."""
        own = {child.pid for child in self.children.values()}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in own:
                return
            os.waitpid(found.si_pid, 0)

    def _renew(self, disk_mb: int, files: int) -> None:
        """Give the place an empty box."""
        if self.mounts:
            if self.box != (0, 0):
                syscalls.unmount(jail.BOX)
            jail.fresh_box(disk_mb, files, self.cell.owner)
        else:
            jail.empty(self.cell.home, self.cell.owner)
        self.box = (disk_mb, files)

    def _wait_s(self) -> float:
        """Until the next deadline or look is due."""
        waits = [child.deadline - time.monotonic() for child in self.children.values() if child.deadline is not None]
        return max(0.0, min(*waits, self.pause)) if waits else IDLE_TICK_S
