"""Split grading by test code: the submission and the tests run in two sandboxes, plain data goes between them.

Which calls the tests make is learnt once, from the reference. A submission answers these calls where it cannot see the
tests, then the tests run on its answers where it is not. If they make other calls, because an answer decided what to
ask next, the submission is asked for those too.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envs.code.grading.split_grading import OUTPUT_KB, Answer, Answers, Call, Grade, ask
from sandboxes import Limits, Result, Sandbox, SandboxError, Session, json_values

ROUNDS = 40  # times a submission is asked for further calls
CPU_S = 10.0  # for the tests themselves
KEPT = 4096  # exams whose calls are remembered
USES = 100  # of a session: tests may leave something behind

Calls = tuple[tuple[Call, ...], ...]  # by test

_recorded: dict[Exam, Calls] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Exam:
    """Tests of a function. Each is a text that raises unless it passes, run after `setup` with `function` defined."""

    name: str
    function: str
    setup: str
    tests: tuple[str, ...]
    reference: str  # a right program, run after `setup`


def examine(sandbox: Sandbox, sources: Sequence[str], exam: Exam, *, cpu_s: float) -> Grade:
    """How many of the tests a submission passes. `sources` and `cpu_s` as for `envs.code.grading.split_grading.ask`.

    Raises ValueError for an exam that its own reference fails, or that hands over more than plain data.
    """
    calls = list(_calls(sandbox, exam))
    found = Answers()
    for _ in range(ROUNDS):
        found = ask(sandbox, sources, exam.function, [call for test in calls for call in test], cpu_s=cpu_s)
        if not found.loaded:
            break
        told = _sit(sandbox, exam, calls, found)
        missing = [(number, *call) for number, (_, call) in enumerate(told) if call]
        if not missing or found.fault:
            passed = [not fault and not call for fault, call in told]
            return _verdict(sum(passed), found, exam)
        for number, place, (given, named) in missing:
            calls[number] = (*calls[number][:place], Call(given, named))
    return _verdict(0, found, exam)


def _verdict(passed: int, found: Answers, exam: Exam) -> Grade:
    raised = [number for number, one in enumerate(found.answers) if one.raised]
    failed = raised[0] if raised and passed < len(exam.tests) else None
    return Grade(passed, len(exam.tests), found, failed)


def _calls(sandbox: Sandbox, exam: Exam) -> Calls:
    """The calls that the tests make to the reference; recorded once per process."""
    if exam not in _recorded:
        result = _called(sandbox, "record", exam.setup, exam.reference, exam.function, exam.tests)
        if not result.ok:
            raise ValueError(f"{exam.name}: its tests cannot be recorded: {result.error or result.status}")
        told: Any = result.value
        if faults := {fault for fault, _ in told if fault}:
            raise ValueError(f"{exam.name}: its own solution fails the tests with {', '.join(sorted(faults))}")
        if len(_recorded) >= KEPT:
            _recorded.clear()
        _recorded[exam] = tuple(tuple(Call(*call) for call in calls) for _, calls in told)
    return _recorded[exam]


def _sit(sandbox: Sandbox, exam: Exam, calls: Sequence[Sequence[Call]], found: Answers) -> Any:
    """What the tests say about the answers: a fault and a missing call, each perhaps empty.

    Answers on which they do not end are wrong ones.
    """
    rest = list(found.answers)[::-1]
    scripts = [[(tuple(call), *_answered(rest.pop() if rest else None)) for call in test] for test in calls]
    try:
        result = _called(sandbox, "examine", exam.setup, exam.function, exam.tests, scripts)
    except json_values.NotPlain:  # an answer that is nested too deep to be sent on
        return [("NotPlain", [])] * len(exam.tests)
    return result.value if result.ok else [(str(result.status), [])] * len(exam.tests)


def _answered(answer: Answer | None) -> tuple[str, Any]:
    if answer is None:
        return "stopped", None
    return ("raised", answer.raised) if answer.raised else ("value", answer.value)


def _called(sandbox: Sandbox, function: str, *given: Any) -> Result:
    """Call a function of the examiner, in a session that is kept for the next one unless something went wrong."""
    kept = idle(sandbox)
    with _lock:
        session, uses = kept.pop() if kept else (None, 0)
    if session is None:
        session = sandbox.session(limits=Limits(cpu_s=CPU_S, output_kb=OUTPUT_KB))
        if not (begun := session.cell(_examiner())).ok:
            raise SandboxError(f"the examiner could not be started: {begun.error or begun.status}")
    try:
        result = session.call(function, *given, timeout_s=2.0 + 4.0 * CPU_S)
    except BaseException:
        session.close()
        raise
    if result.ok and uses < USES:
        with _lock:
            kept.append((session, uses + 1))
    else:
        session.close()
    return result


def idle(sandbox: Sandbox) -> list[tuple[Session, int]]:
    """Sessions in which tests wait to be run, and how often each has been used; they end with their sandbox."""
    return vars(sandbox).setdefault("_examiners", [])  # there, as whoever is forgotten takes them along


@cache
def _examiner() -> str:
    return Path(__file__).with_name("examiner.py").read_text(encoding="utf-8")
