"""The warden: forks candidates, the untrusted programs, and ends them.

Each place (a process tree that runs one program at a time) has one, the first process of its pid namespace. It holds no
data of a call: requests and output pass between host and candidate directly, so the next candidate's memory contains
nothing of an earlier call. A stateless place is emptied after each call; that of a session lasts as long as the host
keeps its socket open. The folders of programs are reached by descriptors only (see `sandboxes.local.confinement.box`).
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
from typing import Any, NoReturn

from sandboxes.local import candidate, codec, interpreter, usage
from sandboxes.local.candidate import Confinement
from sandboxes.local.confinement import jail
from sandboxes.local.heap import collapse_heap

TICK_S, IDLE_TICK_S = 0.025, 1.0  # between checks of what a place uses, during calls and between calls
OWN_MB = 16  # of a warden, in the control group of its programs
SETTLED_CALLS = 4  # calls after which a warden's own pages no longer move
KILL_WAIT_S = 0.4  # for killed processes to be gone; otherwise the place is given up


@dataclass(slots=True)
class Child:
    """The first process of a candidate, an untrusted program. `deadline` is None between the cells of a session."""

    pid: int
    pidfd: int
    key: int
    start_time: float
    deadline: float | None
    once: bool  # whether the place is emptied after it
    fetch: bool  # whether the report of its end carries a descriptor of the working directory
    why: str | None = None  # why the warden ended it: "timeout", "cpu", "memory", "files"


class Warden:
    """Runs untrusted programs for one host, which asks for them on one socket, until the host closes it."""

    def __init__(
        self,
        sock: socket.socket,
        confinement: Confinement,
        group: usage.MemoryGroup | None,
        *,
        own_processes: bool,
        last_pid: int | None = None,
    ) -> None:
        """`sock` is connected to the host; `confinement` is what confines each program.

        Without a `group` the warden polls memory by itself. `own_processes`: all processes that it can signal belong
        to its place. `last_pid` is a descriptor of the kernel's `ns_last_pid`, if this process may write to it: every
        stateless program gets the same pid then.
        """
        self.sock, self.confinement, self.group = sock, confinement, group
        self.own_processes, self.last_pid, self.box = own_processes, last_pid, confinement.box
        self.children: dict[int, Child] = {}  # by pidfd
        self.limits: dict[str, Any] = {}
        self.box_limits = (0, 0)  # MiB and files
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)
        self.earlier_cpu_s, self.earlier_kills = 0.0, 0  # before the call that runs now
        self.last_check = self.check_interval = 0.0
        self.call_count = self.initial_bytes = 0  # stateless calls; resident bytes when it began

    def serve(self) -> NoReturn:
        """Run the programs that the host asks for until it closes the socket; then end this process and all of them."""
        work = jail.WORK if self.own_processes else f"{self.box.path}/work"
        tmp = "/tmp" if self.own_processes else f"{self.box.path}/tmp"
        os.environ.update(HOME=work, TMPDIR=tmp)
        self._renew_box(64, 4096)
        self.initial_bytes = usage.resident()
        while True:
            wait_s = min(self._wait_s(), IDLE_TICK_S if self.children else 3600)
            for descriptor, _ in self.poll.poll(wait_s * 1000):
                if child := self.children.get(descriptor):
                    self._finish(child)
                else:
                    try:
                        message, descriptors = codec.receive(self.sock)
                    except EOFError:
                        self._kill_all()
                        os._exit(0)
                    self._handle(message, descriptors)
            if self.children:
                self._enforce_limits()

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        match message["do"]:
            case "start":
                self._start(message, descriptors)
            case "watch":
                self._set_deadline(message["key"], time.monotonic() + message["timeout_s"])
            case "rest":
                self._set_deadline(message["key"], None)
            case "look":
                others = usage.other_processes() if self.own_processes else self.children
                codec.send(self.sock, {"others": len(others), "grown": usage.resident() - self.initial_bytes})
            case "open":
                try:
                    self.box.repair()
                    codec.send(self.sock, {"opened": ""}, [self.box.work])
                except OSError as fault:
                    codec.send(self.sock, {"opened": str(fault)})
            case "interrupt" | "kill":
                for child in list(self.children.values()):
                    if child.key == message["key"]:
                        self._signal(child, signal.SIGINT if message["do"] == "interrupt" else signal.SIGKILL)

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        start_time = time.monotonic()
        try:
            pid = self._fork_candidate(message, descriptors)
        except OSError as fault:
            if message["once"]:
                raise
            report = {"code": 0, "why": None, "wall_s": 0.0, "cpu_s": 0.0, "memory_mb": 0.0, "clean": True}
            codec.send(self.sock, report | {"ended": message["key"], "refused": str(fault)})
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        pidfd = os.pidfd_open(pid)
        deadline = None if message["cells"] else start_time + message["timeout_s"]
        self.children[pidfd] = Child(
            pid, pidfd, message["key"], start_time, deadline, message["once"], message["fetch"]
        )
        self.poll.register(pidfd, select.POLLIN)
        self.last_check, self.check_interval = start_time, TICK_S

    def _fork_candidate(self, message: dict[str, Any], descriptors: list[int]) -> int:
        """Prepare the box, and fork the process of a program. Raises OSError, in a session because of earlier ones."""
        limits = self.limits = message["limits"]
        box_limits = (limits["disk_mb"], limits["files"])
        if self.box_limits != box_limits or (message["once"] and not self.box.outlives_renewal):
            self._renew_box(*box_limits)
        elif not message["once"]:
            self.box.repair()
        if self.group:
            # Files are in memory, and may fill the disk; the warden's own memory is not the program's.
            self.group.limit(limits["memory_mb"] + limits["disk_mb"] + OWN_MB)
        self._reset_counters()
        if message["once"] and self.last_pid is not None:
            os.pwrite(self.last_pid, b"1", 0)
        pid = os.fork()
        if not pid:
            self._become_candidate(message, descriptors)
        return pid

    def _become_candidate(self, message: dict[str, Any], descriptors: list[int]) -> NoReturn:
        """Run the candidate, in the child. A failure before `STARTED` is the sandbox's, and reported on the channel."""
        try:
            cpu_s = None if message["cells"] else int(message["limits"]["cpu_s"]) + 2  # the warden is more exact
            candidate.confine(self.confinement, descriptors, message["limits"], cpu_s)
            if message["cells"]:
                interpreter.serve()
            candidate.run()
        except BaseException as fault:
            text = codec.SETUP_FAILED + f"{type(fault).__name__}: {fault}".encode()[:1000]
            for channel in (descriptors[0], candidate.CHANNEL):  # before and after it was moved
                with suppress(OSError):
                    os.write(channel, text)
        finally:
            os._exit(125)

    def _finish(self, child: Child) -> None:
        """Collect a candidate that has ended, report its end, and empty a stateless place."""
        _, status, resources = os.wait4(child.pid, 0)
        self.poll.unregister(child.pidfd)
        os.close(child.pidfd)
        del self.children[child.pidfd]
        clean = self._kill_all() and not self.box.is_crowded() if child.once else True
        code = os.waitstatus_to_exitcode(status)
        if code and not child.why and self.group and self.group.oom_kills() > self.earlier_kills:
            child.why = "memory"
        cpu_s = self._cpu_s() - self.earlier_cpu_s
        if code in (-signal.SIGXCPU, -signal.SIGKILL) and not child.why and cpu_s > self.limits["cpu_s"]:
            child.why = "cpu"
        report = {
            "ended": child.key,
            "code": code,
            "why": child.why,
            "wall_s": time.monotonic() - child.start_time,
            "cpu_s": cpu_s,
            "memory_mb": resources.ru_maxrss / 1024,
            "clean": clean,
        }
        codec.send(self.sock, report, [self.box.work] if child.fetch else [])
        if not clean:
            os._exit(1)
        if child.once:
            if self.box.outlives_renewal:  # a plain folder is emptied before the next call: the host may still read it
                self._renew_box(*self.box_limits)
            self.call_count += 1
            if self.call_count == SETTLED_CALLS:
                collapse_heap()

    def _enforce_limits(self) -> None:
        """End what is over its deadline or a limit."""
        now = time.monotonic()
        for child in list(self.children.values()):
            if child.deadline is not None and now >= child.deadline and not child.why:
                child.why = "timeout"
                self._signal(child, signal.SIGKILL)
        is_idle = all(child.deadline is None for child in self.children.values())
        if now - self.last_check < (IDLE_TICK_S if is_idle else self.check_interval):
            return
        self._reap_orphans()
        why = self._limit_exceeded()
        if why:
            for child in self.children.values():
                child.why = child.why or why
            self._signal_all()
        self.last_check = time.monotonic()
        self.check_interval = max(TICK_S, 4 * (self.last_check - now))

    def _limit_exceeded(self) -> str | None:
        pids = self._candidate_pids()
        current = usage.usage(pids)
        if current.cpu_s + self._collected_cpu_s() - self.earlier_cpu_s > self.limits["cpu_s"]:
            return "cpu"
        max_bytes = self.limits["memory_mb"] << 20
        if not self.group and current.resident > max_bytes and usage.memory(pids, max_bytes) > max_bytes:
            return "memory"
        return "files" if self.box.is_over(*self.box_limits) else None

    def _candidate_pids(self) -> list[int]:
        return usage.other_processes() if self.own_processes else [child.pid for child in self.children.values()]

    def _set_deadline(self, key: int, deadline: float | None) -> None:
        for child in self.children.values():
            if child.key == key:
                child.deadline = deadline
        self._reset_counters()
        self.check_interval = TICK_S

    def _reset_counters(self) -> None:
        """Count CPU time and kills from here on."""
        self.earlier_cpu_s = self._cpu_s()
        self.earlier_kills = self.group.oom_kills() if self.group else 0

    def _cpu_s(self) -> float:
        """CPU time of all candidates so far, including those that are running."""
        if not self.children:
            return self._collected_cpu_s()
        return usage.usage(self._candidate_pids()).cpu_s + self._collected_cpu_s()

    @staticmethod
    def _collected_cpu_s() -> float:
        """CPU time of candidates that have ended."""
        resources = resource.getrusage(resource.RUSAGE_CHILDREN)
        return resources.ru_utime + resources.ru_stime

    def _signal(self, child: Child, number: int) -> None:
        """Signal the candidate; SIGKILL also its process group and, between a session's cells, the whole place."""
        if number == signal.SIGKILL and child.deadline is None:
            self._signal_all()
            return
        os.kill(child.pid, number)
        if number == signal.SIGKILL and self.own_processes:
            with suppress(OSError):
                os.killpg(child.pid, number)

    def _signal_all(self) -> None:
        """SIGKILL every process here; in a pid namespace -1 reaches all but its first and this one, forks included."""
        if self.own_processes:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            for child in self.children.values():
                os.kill(child.pid, signal.SIGKILL)

    def _kill_all(self) -> bool:
        """End and collect everything; False where a process did not go in time."""
        self._signal_all()
        deadline = time.monotonic() + KILL_WAIT_S
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)

    def _reap_orphans(self) -> None:
        """Collect ended processes whose own parents are gone."""
        own = {child.pid for child in self.children.values()}
        while True:
            try:
                status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if status is None or status.si_pid in own:
                return
            os.waitpid(status.si_pid, 0)

    def _renew_box(self, disk_mb: int, files: int) -> None:
        """Give the place an empty box with these limits."""
        self.box.renew(disk_mb, files)
        self.box_limits = (disk_mb, files)

    def _wait_s(self) -> float:
        """Seconds until the next deadline or check is due."""
        now = time.monotonic()
        waits = [child.deadline - now for child in self.children.values() if child.deadline is not None]
        return max(0.0, min(*waits, self.check_interval)) if waits else IDLE_TICK_S
