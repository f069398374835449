"""Split grading by unit tests: the submission and the tests run in two sandboxes and exchange plain data.

The calls that the tests make are recorded once, from the reference solution. A submission answers these calls where it
cannot see the tests; then the tests run on its answers where it is not. If the tests make other calls, because an
earlier answer decides what they ask next, the submission is run again with those too.

Tests that draw random inputs draw them from a seed that the submission does not get: had it the same luck, it could
draw the right answers instead of computing them.

When a suite is recorded, it is checked once: tests that pass whatever the function returns would reward every program,
and a solution that only passes beside its tests, since it changes an argument in place or returns an object,
cannot be given as a reply.
"""

from __future__ import annotations

import ast
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, cast

from envs.code.grading.sandbox_programs import read_program
from envs.code.grading.split_grading import OUTPUT_KB, Answer, Call, Grade, SubmissionRun, run_submission
from sandboxes import Limits, Result, Sandbox, SandboxError, Session, json_values

ROUNDS = 40  # runs of a submission with further calls
CPU_S = 10.0  # for the tests themselves
TESTS_S = 2.0 + 4.0 * CPU_S  # wall seconds for the tests; on machines that are busy
MAX_RECORDINGS = 4096  # suites whose calls are remembered
MAX_USES = 100  # of a session: tests may leave something behind
# Values that no test accepts all of, unless it accepts any.
PROBES: tuple[Any, ...] = (None, float("nan"), 0, True, "", [], -1)
PROBE_S = 1.0  # wall seconds of the tests on one probe; a test that does not end does not accept it
MAX_PROBES = 60  # values
CHECK_S = 5.0  # wall seconds for all probes of a suite; one that is slower is taken as sound

Calls = tuple[tuple[Call, ...], ...]  # by test

_recordings: dict[tuple[UnitTestSuite, int | None], Calls] = {}  # None: the calls are the same for every seed
_faults: dict[UnitTestSuite, str] = {}  # of suites that have been checked: why one is refused, "" for a sound one
_lock = threading.Lock()
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnitTestSuite:
    """Tests of a function. Each is a text that raises unless it passes, run after `setup` with `function` defined.

    Attributes:
        name: Names the suite in errors.
        function: The name of the function.
        setup: Code that runs before the tests and before the reference.
        tests: Source texts, such as `assert f(2) == 4`.
        reference: A right program, run after `setup`.
    """

    name: str
    function: str
    setup: str
    tests: tuple[str, ...]
    reference: str  # a right program, run after `setup`


def grade_by_tests(
    sandbox: Sandbox, sources: Sequence[str], suite: UnitTestSuite, *, cpu_s: float, seed: int = 0
) -> Grade:
    """Grade a submission by the share of the tests it passes.

    Args:
        sandbox: Where to run the submission and, in a process of their own, the tests.
        sources: Candidate programs; the first that compiles is graded.
        suite: The tests.
        cpu_s: CPU seconds for loading the submission and all calls.
        seed: Seed, 0 or more, of the random numbers that tests draw. Where tests draw any, a submission that knows it
            can pass them without reading its input.

    Raises:
        ValueError: The suite's own reference fails it, all tests pass whatever the function returns, or its calls have
            arguments other than plain data.
        SandboxError: The sandbox itself fails.
    """
    return _grade_from(_reference_calls(sandbox, suite, seed), sandbox, sources, suite, cpu_s, seed)


def _grade_from(
    reference_calls: Calls, sandbox: Sandbox, sources: Sequence[str], suite: UnitTestSuite, cpu_s: float, seed: int
) -> Grade:
    """Grade a submission by the tests, which make at first the calls that they make to the reference."""
    calls, run = list(reference_calls), SubmissionRun()
    for _ in range(ROUNDS):
        run = run_submission(sandbox, sources, suite.function, [call for test in calls for call in test], cpu_s=cpu_s)
        if not run.is_loaded:
            break
        reports = _run_tests(sandbox, suite, seed, calls, run)
        missing = [(number, *call) for number, (_, call) in enumerate(reports) if call]
        if not missing or run.error:
            return _grade(sum(not error and not call for error, call in reports), run, suite)
        for number, place, (args, kwargs) in missing:
            calls[number] = (*calls[number][:place], Call(args, kwargs))
    return _grade(0, run, suite)


def _grade(correct: int, run: SubmissionRun, suite: UnitTestSuite) -> Grade:
    failures = [number for number, answer in enumerate(run.answers) if answer.error]
    return Grade(correct, len(suite.tests), run, failures[0] if failures and correct < len(suite.tests) else None)


def _reference_calls(sandbox: Sandbox, suite: UnitTestSuite, seed: int) -> Calls:
    """The calls that the tests make to the reference; recorded once per process, per seed if the tests draw."""
    calls = _recordings.get((suite, None)) or _recordings.get((suite, seed))
    if calls is not None:
        return calls
    if fault := _faults.get(suite):
        raise ValueError(fault)
    arguments = (suite.setup, suite.reference, suite.function, suite.tests, seed)
    result = _call_examiner(sandbox, "record", *arguments, timeout_s=TESTS_S)
    if not result.ok:
        raise ValueError(f"{suite.name}: its tests cannot be recorded: {result.error or result.status}")
    reports, drew = cast(Any, result.value)
    errors = {error for error, _ in reports if error}
    if "NotPlain" in errors:
        raise ValueError(
            f"{suite.name}: its tests pass objects to {suite.function}, but arguments must be plain data, such as "
            "numbers, texts and lists; leave this row out"
        )
    if errors:
        raise ValueError(f"{suite.name}: its own solution fails the tests with {', '.join(sorted(errors))}")
    if len(_recordings) >= MAX_RECORDINGS:
        _recordings.clear()
    calls = tuple(tuple(Call(*call) for call in test_calls) for _, test_calls in reports)
    if suite not in _faults:
        _check_suite(sandbox, suite, calls, seed)
    _recordings[suite, seed if drew else None] = calls
    return calls


def _check_suite(sandbox: Sandbox, suite: UnitTestSuite, calls: Calls, seed: int) -> None:
    """Raise ValueError if all tests pass whatever is returned; log a reference that would not pass as a reply."""
    deadline, fault = time.monotonic() + CHECK_S, ""
    for value in _probe_values(suite, calls):
        probe_run = SubmissionRun(tuple(Answer(value) for test_calls in calls for _ in test_calls))
        if any(map(any, _run_tests(sandbox, suite, seed, calls, probe_run, timeout_s=PROBE_S))):
            break
        if time.monotonic() > deadline:
            break
    else:
        name = suite.function
        fix = f"compare its value in an assertion, such as `assert {name}(...) == ...` without brackets around it"
        fault = f"{suite.name}: its tests pass for every value that was tried in place of what {name} returns; {fix}"
    with _lock:
        is_new = suite not in _faults
        if len(_faults) >= MAX_RECORDINGS:
            _faults.clear()
        _faults[suite] = fault
    if fault:
        raise ValueError(fault)
    grade = _grade_from(calls, sandbox, [suite.reference], suite, CPU_S, seed)
    if is_new and not grade.is_correct:
        reason = grade.error or (
            f"of a reply the tests see only what {suite.function} returns, as plain data: no change of an argument in "
            "place, and no other function"
        )
        share = f"{grade.correct} of {grade.total} tests"
        log.warning(
            "%s: its own solution passes %s as replies are graded (%s); leave this row out", suite.name, share, reason
        )


def _probe_values(suite: UnitTestSuite, calls: Calls) -> Iterator[Any]:
    """Different values that tests should not all accept: some of every kind, arguments, and literals of the tests."""
    values: dict[str, Any] = {repr(value): value for value in PROBES}
    for call in (call for test_calls in calls for call in test_calls):
        values |= {repr(value): value for value in call.args}
    for test in suite.tests:
        with suppress(SyntaxError):  # the sandbox may have a later Python
            for node in ast.walk(ast.parse(test)):
                with suppress(ValueError, TypeError):  # no literal
                    value = ast.literal_eval(node)  # type: ignore[arg-type]  # of an expression, as a node of any kind
                    if value is not Ellipsis:
                        values[repr(value)] = value
    yield from islice(values.values(), MAX_PROBES)


def _run_tests(
    sandbox: Sandbox,
    suite: UnitTestSuite,
    seed: int,
    calls: Sequence[Sequence[Call]],
    run: SubmissionRun,
    timeout_s: float = TESTS_S,
) -> Any:
    """Run the tests on the submission's answers; return for each an exception name and a missing call, or empty ones.

    Answers with which the tests do not end are wrong ones.
    """
    rest = list(run.answers)[::-1]
    scripts = [[(tuple(call), *_script_answer(rest.pop() if rest else None)) for call in test] for test in calls]
    try:
        arguments = (suite.setup, suite.function, suite.tests, seed, scripts)
        result = _call_examiner(sandbox, "examine", *arguments, timeout_s=timeout_s)
    except json_values.NotPlain:  # an answer that is nested too deep to be sent on
        return [("NotPlain", [])] * len(suite.tests)
    return result.value if result.ok else [(str(result.status), [])] * len(suite.tests)


def _script_answer(answer: Answer | None) -> tuple[str, Any]:
    if answer is None:
        return "stopped", None
    return ("raised", answer.error) if answer.error else ("value", answer.value)


def _call_examiner(sandbox: Sandbox, function: str, *arguments: Any, timeout_s: float) -> Result:
    """Call a function of the examiner in a session, which is reused for the next call unless something went wrong."""
    sessions = idle_sessions(sandbox)
    with _lock:
        session, uses = sessions.pop() if sessions else (None, 0)
    if session is None:
        session = sandbox.session(limits=Limits(cpu_s=CPU_S, output_kb=OUTPUT_KB))
        if not (loading := session.cell(_examiner())).ok:
            raise SandboxError(f"the examiner could not be started: {loading.error or loading.status}")
    try:
        result = session.call(function, *arguments, timeout_s=timeout_s)
    except BaseException:
        session.close()
        raise
    if result.ok and uses < MAX_USES:
        with _lock:
            sessions.append((session, uses + 1))
    else:
        session.close()
    return result


def idle_sessions(sandbox: Sandbox) -> list[tuple[Session, int]]:
    """Return the list of a sandbox's idle sessions, processes that run tests, each with the number of its uses.

    It is the list itself, which callers change; the sessions end with their sandbox.
    """
    return vars(sandbox).setdefault("_examiners", [])  # stored there so that they are collected with the sandbox


@cache
def _examiner() -> str:
    return read_program("examiner")
