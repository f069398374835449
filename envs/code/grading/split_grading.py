"""Split grading: a submission answers calls in a sandbox, and what is right is known and compared here only.

What a function should return, and the code of tests, never enters the submission's sandbox; what leaves it is plain
data, of which nothing is executed. So exits, patched builtins, objects that equal everything, forged frames and printed
verdicts earn nothing: they are answers that are wrong. A fault of the sandbox is a `SandboxError` and no verdict.

What is not seen: changes of the arguments in place, and identities. A submission does see the inputs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from envs.code.grading.compiled import compiled
from sandboxes import Limits, Result, Sandbox, Status, json_values

OUTPUT_KB = 2048  # of all answers together
MAX_FAULT = 100  # characters of an exception that are passed on
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_STOPPED = {
    Status.TIMEOUT: "timeout",
    Status.CPU_LIMIT: "timeout",
    Status.MEMORY_LIMIT: "out of memory",
    Status.OUTPUT_LIMIT: "too much output",
}


class Case(NamedTuple):
    """The arguments of one call and what it should return; plain data."""

    given: tuple[Any, ...]
    wanted: Any


class Call(NamedTuple):
    """The arguments of one call, by position and by name."""

    given: tuple[Any, ...]
    named: Mapping[str, Any] = {}


class Answer(NamedTuple):
    """What one call came to: a value, or the exception that it raised in one line."""

    value: Any = None
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a submission answered. `fault` says why it stopped before the last call, and is "" where it did not.

    `readable` is False where no text given compiled, `loaded` where the program could not be run or has no function.
    `cpu_s` counts the interpreter's start and the loading too.
    """

    answers: tuple[Answer, ...] = ()
    fault: str = ""
    readable: bool = True
    loaded: bool = False
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Grade:
    """A verdict: how many of `total` cases a submission answers right, and the first answer that is not."""

    passed: int
    total: int
    answers: Answers = field(default_factory=Answers)
    failed: int | None = None  # the first case that failed

    @property
    def right(self) -> bool:
        """Whether all cases pass."""
        return self.passed == self.total > 0

    @property
    def share(self) -> float:
        """Of the cases, those that pass."""
        return self.passed / self.total

    @property
    def word(self) -> str:
        """A line for whoever wrote the submission, without the hidden cases: `5/8 right; ValueError: empty`."""
        return f"{self.passed}/{self.total} right" + (f"; {why}" if (why := self.fault) else "")

    @property
    def fault(self) -> str:
        """Why the submission stopped, or the exception of the first case that failed; else ""."""
        given = self.answers.answers
        if self.failed is not None and self.failed < len(given):
            return given[self.failed].raised or self.answers.fault
        return self.answers.fault

    @property
    def metrics(self) -> dict[str, float]:
        """`passed`, the share of cases; `timeout`; `raised`, whether something was raised or ended it early."""
        late = self.answers.fault == "timeout"
        raised = (bool(self.answers.fault) and not late) or any(one.raised for one in self.answers.answers)
        return {"passed": self.share, "timeout": float(late), "raised": float(raised)}


def ask(
    sandbox: Sandbox,
    sources: Sequence[str],
    function: str,
    calls: Sequence[Call],
    *,
    cpu_s: float = 1.0,
    memory_mb: int = 512,
) -> Answers:
    """Load the first of `sources` that compiles and make the calls, in order, in one fresh place.

    `cpu_s` bounds the CPU time of all of it; the wall is bounded generously, for machines that are busy. After a call
    that does not end no further ones are made. Raises SandboxError for a fault of ours.
    """
    if not sources:
        return Answers(fault="no program", readable=False)
    asked = literal([(tuple(call.given), dict(call.named)) for call in calls])
    start, sent = compiled("answerer")
    program = f"{start}answer({list(sources)!r}, {function!r}, {asked})\n"
    limits = Limits(cpu_s=cpu_s, memory_mb=memory_mb, output_kb=OUTPUT_KB)
    return _read(sandbox.run(program, stdin=sent, timeout_s=2.0 + 4.0 * cpu_s, limits=limits), len(calls))


def grade(
    sandbox: Sandbox,
    sources: Sequence[str],
    function: str,
    cases: Sequence[Case],
    *,
    cpu_s: float = 1.0,
    memory_mb: int = 512,
    tolerance: float = 0.0,
) -> Grade:
    """Ask all cases and compare. `sources` are texts as `envs.code.grading.extraction.programs` finds them in a reply."""
    calls = [Call(case.given) for case in cases]
    answers = ask(sandbox, sources, function, calls, cpu_s=cpu_s, memory_mb=memory_mb)
    return judged(answers, [case.wanted for case in cases], tolerance=tolerance)


def judged(answers: Answers, wanted: Sequence[Any], *, tolerance: float = 0.0) -> Grade:
    """Compare answers with what is wanted, in order; those that are missing are wrong."""
    found = [
        not one.raised and same(one.value, right, tolerance)
        for one, right in zip(answers.answers, wanted, strict=False)
    ]
    found += [False] * (len(wanted) - len(found))
    return Grade(sum(found), len(wanted), answers, found.index(False) if False in found else None)


def same(found: Any, wanted: Any, tolerance: float = 0.0) -> bool:
    """Equal in value and type, all the way down: `1`, `1.0` and `True` differ, and so do `[1]` and `(1,)`.

    With a `tolerance`, relative and absolute, a number is as good as a float that near to it. Two NaN are equal.
    """
    if type(wanted) is float and (type(found) is float or (tolerance and type(found) is int)):
        return _near(found, wanted, tolerance)
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(lambda a, b: same(a, b, tolerance), found, wanted))
    if type(wanted) is dict:
        keys = {(type(key), key) for key in found} == {(type(key), key) for key in wanted}
        return keys and all(same(found[key], wanted[key], tolerance) for key in wanted)
    if type(wanted) in (set, frozenset):
        return {(type(one), one) for one in found} == {(type(one), one) for one in wanted}
    return found == wanted


def _near(found: float, wanted: float, tolerance: float) -> bool:
    if math.isnan(wanted):
        return found != found
    try:
        return found == wanted or math.isclose(found, wanted, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # an int beyond all floats
        return False


def _read(result: Result, calls: int) -> Answers:
    """What a run of the answerer says; it may be forged, so everything unexpected is a fault of the submission."""
    head: str | None = None
    answers: list[Answer] = []
    for line in result.stdout.split("\n")[:-1]:  # what does not end in a newline was cut off
        try:
            kind, value = json_values.load(line)
        except (ValueError, TypeError):
            return _garbled(result)
        if head is None and kind in ("loaded", "unread", "broken") and isinstance(value, str):
            head = kind
            if kind != "loaded":
                return Answers(fault=_told(value), readable=kind != "unread", cpu_s=result.cpu_s)
        elif head is not None and kind == "value":
            answers.append(Answer(value))
        elif head is not None and kind == "raised" and isinstance(value, str):
            answers.append(Answer(raised=_told(value) or "an exception"))
        else:
            return _garbled(result)
    if len(answers) > calls:
        return _garbled(result)
    fault = _STOPPED.get(result.status, "")
    if not fault and (head is None or len(answers) < calls):
        fault = "the program ended"
    return Answers(tuple(answers), fault, loaded=head is not None, cpu_s=result.cpu_s)


def _garbled(result: Result) -> Answers:
    return Answers(fault="answers that nobody asked for", cpu_s=result.cpu_s)


def _told(line: str) -> str:
    """An exception as it may be shown: short, and the same in every process."""
    return _ADDRESS.sub("0x", " ".join(line.split()))[:MAX_FAULT]


def literal(value: Any) -> str:
    """Python text for plain data; `repr` refuses long numbers."""
    if isinstance(value, bool) or value is None or isinstance(value, str | bytes):
        return repr(value)
    if isinstance(value, int):
        return hex(value) if abs(value) >> 64 else repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"float('{value!r}')"
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(one)}" for key, one in value.items()) + "}"
    members = ", ".join(map(literal, value))
    if isinstance(value, tuple):
        return f"({members},)" if members else "()"
    return f"[{members}]" if isinstance(value, list) else f"{type(value).__name__}([{members}])"
