"""Suites of unit tests that cannot judge: refused if they pass for every value, named if their solution cannot earn."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from envs.code.grading import unit_tests
from envs.code.grading.unit_tests import UnitTestSuite, grade_by_tests
from envs.shared_sandbox import Lease
from sandboxes import Sandbox
from tests.support.sandbox_hosts import why_not


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    if reason := why_not("local"):
        pytest.skip(reason)
    lease = Lease("local")
    yield lease.sandbox
    lease.close()


def test_a_suite_that_its_own_solution_fails_is_refused(sandbox: Sandbox) -> None:
    for name, test, word in (("false", "assert f(1) == 3", "AssertionError"), ("broken", "assert (", "SyntaxError")):
        with pytest.raises(ValueError, match=f"{name}: its own solution fails the tests with {word}"):
            grade_by_tests(
                sandbox, ["def f(n): return 3"], UnitTestSuite(name, "f", "", (test,), "def f(n): return 2"), cpu_s=1.0
            )
    objects = UnitTestSuite("objects", "f", "class A: pass", ("assert f(A()) == 1",), "def f(a): return 1")
    with pytest.raises(ValueError, match="objects: its tests pass objects to f, but arguments must be plain data"):
        grade_by_tests(sandbox, [objects.reference], objects, cpu_s=1.0)


@pytest.mark.parametrize(
    "test",
    ["f(1) == 2", "f(1)", "assert (f(1) == 2, 'wrong')", "def check(f):\n    pass\ncheck(f)", "assert f(1) or True"],
)
def test_a_suite_that_passes_whatever_is_returned_is_refused(
    sandbox: Sandbox, test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = UnitTestSuite("rows.jsonl:3: loose", "f", "", (test, test), "def f(n): return n + 1")
    with pytest.raises(
        ValueError, match=r"^rows.jsonl:3: loose: its tests pass for every value that was tried .*assert f"
    ):
        grade_by_tests(sandbox, ["def f(n): return n + 1"], suite, cpu_s=1.0)
    monkeypatch.setattr(unit_tests, "_call_examiner", None)  # the second time from memory
    with pytest.raises(ValueError, match="its tests pass for every value"):
        grade_by_tests(sandbox, ["def f(n): return n + 1"], suite, cpu_s=1.0)
    monkeypatch.undo()
    suite = UnitTestSuite(f"one is strict {test}", "f", "", ("assert f(2) == 3", test), "def f(n): return n + 1")
    assert not grade_by_tests(sandbox, ["def f(n): return None"], suite, cpu_s=1.0).is_correct


@pytest.mark.parametrize(
    "test",
    [
        "assert f(1) is None",
        "assert f(1) != 5",
        "assert f(1) != -7",
        "assert f(1) != [1, 2]",
        "assert f(1) not in ((1, 2), {'a': 1})",
        "given = [3, 1]\nassert f(1) != 1",
        "assert not f(1) == 5",
        "try:\n    f(0)\nexcept ZeroDivisionError:\n    pass\nelse:\n    raise AssertionError",
    ],
)
def test_a_suite_whose_test_some_value_fails_is_accepted(sandbox: Sandbox, test: str) -> None:
    suite = UnitTestSuite(f"strict {test}", "f", "", (test,), "def f(n):\n    1 / n")
    assert grade_by_tests(sandbox, [suite.reference], suite, cpu_s=1.0).is_correct


@pytest.mark.parametrize(
    ("test", "reference", "reason"),
    [
        (
            "xs = []\nf(xs)\nassert xs == [1]",
            "def f(xs): xs.append(1)",
            "passes 1 of 2 tests .*no change of an argument in place",
        ),
        ("assert f(1) == 3", "from decimal import *\ndef f(n): return Decimal(3)", "0 of 2 tests .*type Decimal is no"),
    ],
)
def test_a_suite_whose_own_solution_cannot_pass_as_a_reply_is_named_once(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, test: str, reference: str, reason: str
) -> None:
    suite = UnitTestSuite("rows.jsonl:3: unearned", "f", "", (test, "assert f([2]) != 5"), reference)
    for _ in range(2):
        grade_by_tests(sandbox, [reference], suite, cpu_s=1.0)
    (line,) = caplog.messages
    assert re.fullmatch(f"rows.jsonl:3: unearned: its own solution .*{reason}.*; leave this row out", line)
