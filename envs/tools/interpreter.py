"""A Python interpreter that lasts for an episode; what it reports depends on the code alone."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from envs.shared_sandbox import Lease
from envs.tools.memo import Memo
from sandboxes import Limits, Result, SandboxError, Session, Status

WALL_PER_CPU_S = 3.0  # wall seconds for each of CPU time, so that a busy machine does not decide what times out
MAX_OUTPUT_KB = 256
SILENT, CUT = "no output", "[cut]"
_MAX_ERROR = 200  # characters of an error message that are reported
_CACHE_SIZE = 20_000
_REASONS = {
    Status.TIMEOUT: "time",
    Status.CPU_LIMIT: "time",
    Status.MEMORY_LIMIT: "memory",
    Status.OUTPUT_LIMIT: "output",
}
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
_SYNTAX = re.compile(r" \(<cell \d+>, (line \d+)\)$")
_OUTSIDE = re.compile(  # names whose values may differ between runs of the same code, and names that may hide them
    r"import|__|\b(?:open|input|id|exec|eval|compile|getattr|vars|globals|locals)\b"
)


class RunReport(NamedTuple):
    """The report on one call: `text`, what the policy is shown; `ok`, whether the code ran to its end without an error.

    `is_alive` is False where the process was stopped or ended; the next call then starts without its names.
    """

    text: str
    ok: bool
    is_alive: bool = True


_reports: Memo[RunReport] = Memo(_CACHE_SIZE, lambda report: report.is_alive)


class Interpreter:
    """One episode's interpreter in a sandbox: opened by the first code that runs, closed by `begin` and `close`.

    A call over a limit, and one that ends the process, leaves nothing behind: the next call gets a new interpreter. No
    clock and no address is reported, nor an output that a time limit cut short. Raises SandboxError where the sandbox
    fails.

    Code that looks at nothing outside itself is run once per host process, and its report is shared: in a group of
    episodes many members run the same code. An interpreter that answered from this cache has no process yet, nor has a
    copy, pickled or deep; the first call that must really run is preceded by all earlier ones of the episode.

    Args:
        lease: The environment's share in a sandbox.
        timeout_s: CPU seconds of one call.
        max_chars: Characters of an output that are reported.
    """

    def __init__(self, lease: Lease, *, timeout_s: float, max_chars: int) -> None:
        self._lease, self.timeout_s, self.max_chars = lease, timeout_s, max_chars
        self._session: Session | None = None
        self._preloads: tuple[str, ...] = ()
        self._history: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether there is a process now."""
        return self._session is not None

    def begin(self, preloads: Sequence[str] = ()) -> None:
        """Forget the last episode and end its process.

        `preloads` are pieces of code that run before the first code of the new episode.
        """
        self.close()
        self._preloads, self._history = tuple(preloads), []

    def run(self, code: str) -> RunReport:
        """Run code and report what it printed and raised, "no output" for neither, or why it was stopped.

        The value of a last expression is printed. Raises SandboxError where the sandbox fails.
        """
        earlier = (*self._preloads, *self._history)
        if self._session is not None or any(_OUTSIDE.search(one) for one in (*earlier, code)):
            return self._run_and_report(code)
        place = (os.getpid(), self._lease.name, repr(self._lease.options), self.timeout_s, self.max_chars)
        key = (place, len(self._preloads), earlier, code)
        report, is_own_run = _reports.get_or_compute(key, lambda: self._run_and_report(code))
        if not is_own_run:
            self._history.append(code)
        return report

    def close(self) -> None:
        """End the process, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None}

    def _run_and_report(self, code: str) -> RunReport:
        try:
            result = self._run_in_session(code)
        except SandboxError:
            self.close()
            raise
        reason = _REASONS.get(result.status)
        if reason is not None or self._session is None or not self._session.alive:
            self.close()
            self._history = []
            return RunReport(f"stopped ({reason or 'exit'}), restarted", False, is_alive=False)
        self._history.append(code)
        parts = [self._truncate(_clean(result.stdout).strip())]
        if not result.ok:
            parts.append(_clean(_describe_error(result, len(self._preloads) + len(self._history))))
        return RunReport("\n".join(filter(None, parts)) or SILENT, result.ok)

    def _run_in_session(self, code: str) -> Result:
        if self._session is None:
            limits = Limits(cpu_s=self.timeout_s, output_kb=MAX_OUTPUT_KB)
            self._session = self._lease.sandbox.session(limits=limits)
            for earlier in (*self._preloads, *self._history):
                self._session.cell(earlier, timeout_s=WALL_PER_CPU_S * self.timeout_s)
        return self._session.cell(code, timeout_s=WALL_PER_CPU_S * self.timeout_s)

    def _truncate(self, output: str) -> str:
        return output if len(output) <= self.max_chars else f"{output[: self.max_chars]} {CUT}"


def _describe_error(result: Result, cell: int) -> str:
    """The last line of the traceback and the line of this code, `NameError: name 'x' is not defined (line 2)`."""
    error = " ".join(_SYNTAX.sub(r" (\1)", result.error).split())[:_MAX_ERROR].rstrip(": ")
    lines = re.findall(rf'File "<cell {cell}>", line (\d+)', result.stderr)
    if lines and not _SYNTAX.search(result.error):
        error += f" (line {lines[-1]})"
    return error


def _clean(output: str) -> str:
    """Drop addresses, which differ between processes."""
    return _ADDRESS.sub("at 0x0", output)
