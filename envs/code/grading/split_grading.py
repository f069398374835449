"""Split grading: a submission answers calls in a sandbox; the right values are known and compared only on the host.

Neither what a function should return nor the code of tests enters the submission's sandbox; what leaves it is plain
data, none of which is executed. So exits, patched builtins, objects that equal everything, forged frames and printed
verdicts earn nothing: they are wrong answers. A failure of the sandbox raises `SandboxError` and gives no grade.

Not seen are changes of the arguments in place, and object identities. The submission does see the inputs.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from envs.code.grading.sandbox_programs import compile_program
from sandboxes import Limits, Result, Sandbox, Status, json_values

OUTPUT_KB = 2048  # of all answers together
MAX_ERROR = 100  # characters of an exception that are passed on
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_STOP_REASONS = {
    Status.TIMEOUT: "timeout",
    Status.CPU_LIMIT: "timeout",
    Status.MEMORY_LIMIT: "out of memory",
    Status.OUTPUT_LIMIT: "too much output",
}


class Case(NamedTuple):
    """The arguments of one call and the value it should return; plain data."""

    args: tuple[Any, ...]
    expected: Any


_LACKING = re.compile(r"the program defines no function `\w{1,60}`")


class Call(NamedTuple):
    """The arguments of one call, positional and by keyword; plain data."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = {}


class Answer(NamedTuple):
    """The result of one call: its value or, where it raised, the exception in one line."""

    value: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class SubmissionRun:
    """The answers of a submission, in the order of the calls.

    `error` says why it stopped before the last call, "" where it answered all. `is_compiled` is False where no source
    text compiled, `is_loaded` where the program did not run or does not define the function. `cpu_s` is the CPU time of
    the whole run, with the interpreter's start and the loading.
    """

    answers: tuple[Answer, ...] = ()
    error: str = ""
    is_compiled: bool = True
    is_loaded: bool = False
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of a submission: how many of `total` cases are correct, and the answers it is based on.

    `first_failure` is the index of the first case that is not correct, or None.
    """

    correct: int
    total: int
    run: SubmissionRun = field(default_factory=SubmissionRun)
    first_failure: int | None = None

    @property
    def is_correct(self) -> bool:
        """Whether all cases are correct, and there is one."""
        return self.correct == self.total > 0

    @property
    def share(self) -> float:
        """The share of correct cases, from 0 to 1."""
        return self.correct / self.total

    @property
    def summary(self) -> str:
        """One line for the author of the submission, without the hidden cases: `5/8 right; ValueError: empty`."""
        return f"{self.correct}/{self.total} right" + (f"; {error}" if (error := self.error) else "")

    @property
    def blind_summary(self) -> str:
        """`summary` without what the program says, which may be an argument of a call: `5/8 right; ValueError`.

        Of an exception only the type is named, and that only if it is one of Python's own. Of a program without the
        function, what it defines is left out.
        """
        error = self.error
        if lacking := _LACKING.match(error):
            error = lacking[0]
        elif error and error not in ("timeout", "the program ended"):
            name = error.partition(":")[0]
            kind = getattr(builtins, name, None)
            error = name if isinstance(kind, type) and issubclass(kind, BaseException) else "an exception"
        return f"{self.correct}/{self.total} right" + (f"; {error}" if error else "")

    @property
    def error(self) -> str:
        """The exception of the first incorrect case, else why the submission stopped, in one line; "" for neither."""
        answers = self.run.answers
        if self.first_failure is not None and self.first_failure < len(answers):
            return answers[self.first_failure].error or self.run.error
        return self.run.error

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers for logs: `passed`, the share of correct cases; `timeout` and `raised`, 1 or 0.

        `raised` says whether a call raised or the run stopped early for another reason than time.
        """
        is_late = self.run.error == "timeout"
        has_error = (bool(self.run.error) and not is_late) or any(answer.error for answer in self.run.answers)
        return {"passed": self.share, "timeout": float(is_late), "raised": float(has_error)}


def run_submission(
    sandbox: Sandbox,
    sources: Sequence[str],
    function: str,
    calls: Sequence[Call],
    *,
    cpu_s: float = 1.0,
    memory_mb: int = 512,
) -> SubmissionRun:
    """Load the first of `sources` that compiles in a fresh process of the sandbox, and make the calls in order.

    No call is made after one that does not end. Exceptions and exceeded limits are part of what is returned. Raises
    SandboxError where the sandbox itself fails.

    Args:
        sandbox: Where to run.
        sources: Candidate programs, as `envs.code.grading.extraction.extract_programs` finds them in a reply.
        function: The name of the function to call.
        calls: The calls to make.
        cpu_s: CPU seconds for loading and all calls; the wall time is bounded generously, for machines that are busy.
        memory_mb: The memory limit.
    """
    if not sources:
        return SubmissionRun(error="no program", is_compiled=False)
    call_text = literal([(tuple(call.args), dict(call.kwargs)) for call in calls])
    start, stdin = compile_program("answerer")
    program = f"{start}answer({list(sources)!r}, {function!r}, {call_text})\n"
    limits = Limits(cpu_s=cpu_s, memory_mb=memory_mb, output_kb=OUTPUT_KB)
    return _parse_run(sandbox.run(program, stdin=stdin, timeout_s=2.0 + 4.0 * cpu_s, limits=limits), len(calls))


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
    """Run a submission on all cases and grade it by the values it returns. Raises SandboxError if the sandbox fails.

    Args:
        sandbox: Where to run.
        sources: Candidate programs; the first that compiles is graded.
        function: The name of the function to call.
        cases: The calls and the values they should return.
        cpu_s: CPU seconds for loading and all calls.
        memory_mb: The memory limit.
        tolerance: How far floats may be off, relative and absolute.
    """
    calls = [Call(case.args) for case in cases]
    run = run_submission(sandbox, sources, function, calls, cpu_s=cpu_s, memory_mb=memory_mb)
    return compare(run, [case.expected for case in cases], tolerance=tolerance)


def compare(run: SubmissionRun, expected: Sequence[Any], *, tolerance: float = 0.0) -> Grade:
    """Grade the answers of a run against the expected values, in order; missing answers are incorrect.

    `tolerance`, relative and absolute, is how far floats may be off.
    """
    checks = [
        not answer.error and is_equal(answer.value, value, tolerance)
        for answer, value in zip(run.answers, expected, strict=False)
    ]
    checks += [False] * (len(expected) - len(checks))
    return Grade(sum(checks), len(expected), run, checks.index(False) if False in checks else None)


def is_equal(value: Any, expected: Any, tolerance: float = 0.0) -> bool:
    """Whether both are equal in value and type at every depth: `1`, `1.0` and `True` differ, so do `[1]` and `(1,)`.

    With a `tolerance`, relative and absolute, an int or float that near to an expected float equals it. Two NaN are
    equal.
    """
    if type(expected) is float and (type(value) is float or (tolerance and type(value) is int)):
        return _is_close(value, expected, tolerance)
    if type(value) is not type(expected):
        return False
    if isinstance(expected, list | tuple):
        return len(value) == len(expected) and all(map(lambda a, b: is_equal(a, b, tolerance), value, expected))
    if type(expected) is dict:
        keys = {(type(key), key) for key in value} == {(type(key), key) for key in expected}
        return keys and all(is_equal(value[key], expected[key], tolerance) for key in expected)
    if type(expected) in (set, frozenset):
        return {(type(one), one) for one in value} == {(type(one), one) for one in expected}
    return value == expected


def _is_close(value: float, expected: float, tolerance: float) -> bool:
    if math.isnan(expected):
        return value != value
    try:
        return value == expected or math.isclose(value, expected, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # an int beyond all floats
        return False


def _parse_run(result: Result, calls: int) -> SubmissionRun:
    """Parse the lines of the answerer. The submission may have forged them: anything unexpected is its error."""
    head: str | None = None
    answers: list[Answer] = []
    for line in result.stdout.split("\n")[:-1]:  # what does not end in a newline was cut off
        try:
            kind, value = json_values.load(line)
        except (ValueError, TypeError):
            return _garbled_run(result)
        if head is None and kind in ("loaded", "unread", "broken") and isinstance(value, str):
            head = kind
            if kind != "loaded":
                return SubmissionRun(error=_shorten(value), is_compiled=kind != "unread", cpu_s=result.cpu_s)
        elif head is not None and kind == "value":
            answers.append(Answer(value))
        elif head is not None and kind == "raised" and isinstance(value, str):
            answers.append(Answer(error=_shorten(value) or "an exception"))
        else:
            return _garbled_run(result)
    if len(answers) > calls:
        return _garbled_run(result)
    error = _STOP_REASONS.get(result.status, "")
    if not error and (head is None or len(answers) < calls):
        error = "the program ended"
    return SubmissionRun(tuple(answers), error, is_loaded=head is not None, cpu_s=result.cpu_s)


def _garbled_run(result: Result) -> SubmissionRun:
    return SubmissionRun(error="answers that nobody asked for", cpu_s=result.cpu_s)


def _shorten(error: str) -> str:
    """An exception as it may be shown: in one short line, and the same in every process."""
    return _ADDRESS.sub("0x", " ".join(error.split()))[:MAX_ERROR]


def literal(value: Any) -> str:
    """Write plain data as Python source text; unlike `repr` it takes integers of any length."""
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
