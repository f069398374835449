"""A Python that lasts for an episode: what code prints, or why it failed, in words that depend on the code alone."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from envs.shared_sandbox import Lease
from envs.tools.memo import Memo
from sandboxes import Limits, Result, SandboxError, Session, Status

PATIENCE = 3.0  # seconds of waiting for each of CPU time, so that a busy machine does not decide what times out
FLOOD_KB = 256
SILENT, CUT = "no output", "[cut]"
_ERROR = 200  # characters of an error's message that are told
_REASONS = {
    Status.TIMEOUT: "time",
    Status.CPU_LIMIT: "time",
    Status.MEMORY_LIMIT: "memory",
    Status.OUTPUT_LIMIT: "output",
}
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
_SYNTAX = re.compile(r" \(<cell \d+>, (line \d+)\)$")
_OUTSIDE = re.compile(  # what the same code may find otherwise another time, and what may hide it
    r"import|__|\b(?:open|input|id|exec|eval|compile|getattr|vars|globals|locals)\b"
)


class Ran(NamedTuple):
    """What a policy is told of one call, whether the code came to its end, and whether the interpreter outlived it."""

    said: str
    ok: bool
    lasts: bool = True


_known: Memo[Ran] = Memo(20_000, lambda ran: ran.lasts)


class Interpreter:
    """One episode's interpreter in a sandbox: opened by the first code that comes, closed by `begin` and `close`.

    `timeout_s` is CPU time of one call; `most` the characters of an output that are told. A call over a limit, and one
    that ends the process, leaves nothing behind: the next one finds a new interpreter. No clock and no address is told,
    and an output that time has cut short is not told at all. Raises SandboxError where the sandbox fails.

    Code that looks at nothing outside is run once in a process of ours: in a group of episodes many ask the same. Who
    is told what another had printed has no interpreter yet, and nor has a copy, pickled or deep; the first call that
    must be run then runs after all those before it.
    """

    def __init__(self, lease: Lease, *, timeout_s: float, most: int) -> None:
        self._lease, self.timeout_s, self.most = lease, timeout_s, most
        self._session: Session | None = None
        self._preloaded: tuple[str, ...] = ()
        self._past: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether there is a process now."""
        return self._session is not None

    def begin(self, preloaded: Sequence[str] = ()) -> None:
        """Forget what was; `preloaded` runs before the first code."""
        self.close()
        self._preloaded, self._past = tuple(preloaded), []

    def run(self, code: str) -> Ran:
        """Run code and tell of it."""
        before = (*self._preloaded, *self._past)
        if self._session is not None or any(_OUTSIDE.search(one) for one in (*before, code)):
            return self._told(code)
        place = (os.getpid(), self._lease.name, repr(self._lease.options), self.timeout_s, self.most)
        ran, is_ours = _known.once((place, len(self._preloaded), before, code), lambda: self._told(code))
        if not is_ours:
            self._past.append(code)
        return ran

    def close(self) -> None:
        """End the process, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None}

    def _told(self, code: str) -> Ran:
        try:
            result = self._ran(code)
        except SandboxError:
            self.close()
            raise
        reason = _REASONS.get(result.status)
        if reason is not None or self._session is None or not self._session.alive:
            self.close()
            self._past = []
            return Ran(f"stopped ({reason or 'exit'}), restarted", False, lasts=False)
        self._past.append(code)
        told = [self._cut(_clean(result.stdout).strip())]
        if not result.ok:
            told.append(_clean(_complaint(result, len(self._preloaded) + len(self._past))))
        return Ran("\n".join(filter(None, told)) or SILENT, result.ok)

    def _ran(self, code: str) -> Result:
        if self._session is None:
            limits = Limits(cpu_s=self.timeout_s, output_kb=FLOOD_KB)
            self._session = self._lease.sandbox.session(limits=limits)
            for earlier in (*self._preloaded, *self._past):
                self._session.cell(earlier, timeout_s=PATIENCE * self.timeout_s)
        return self._session.cell(code, timeout_s=PATIENCE * self.timeout_s)

    def _cut(self, output: str) -> str:
        return output if len(output) <= self.most else f"{output[: self.most]} {CUT}"


def _complaint(result: Result, cell: int) -> str:
    """The last line of the traceback and the line of this code, `NameError: name 'x' is not defined (line 2)`."""
    error = " ".join(_SYNTAX.sub(r" (\1)", result.error).split())[:_ERROR].rstrip(": ")
    lines = re.findall(rf'File "<cell {cell}>", line (\d+)', result.stderr)
    if lines and not _SYNTAX.search(result.error):
        error += f" (line {lines[-1]})"
    return error


def _clean(said: str) -> str:
    """Without addresses, which differ between processes, and halves of surrogate pairs, which no file can hold."""
    return _ADDRESS.sub("at 0x0", said).encode("utf-8", "replace").decode()
