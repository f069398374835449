"""Split grading: right programs pass, no wrong one does, and a sandbox error gives no grade."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import sandboxes
from envs.code.grading.attacks import attacks
from envs.code.grading.audit import audit
from envs.code.grading.cpu_work import relative_work
from envs.code.grading.split_grading import (
    Answer,
    Call,
    Case,
    SubmissionRun,
    compare,
    grade,
    is_equal,
    literal,
    run_submission,
)
from sandboxes import Limits, Result, Sandbox, SandboxDied, Status
from tests.support.sandbox_hosts import why_not

RIGHT = "def f(xs): return sorted(set(xs))"
CASES = [Case(([3, 1, 3],), [1, 3]), Case(([],), []), Case(([2],), [2]), Case(([5, 4, 5, -1],), [-1, 4, 5])]
PLAIN = [
    *(None, True, 0, -1, 1 << 70, -(10**5000), 0.5, math.inf, -math.inf, 1 + 2j, "", "a'\n\u00e9\ud800", b"\x00"),
    *([], [1, [2]], (), (1,), (1, 2), {}, {"a": (1,)}, {1: {}}, set(), {1, 2}, frozenset(), frozenset({3})),
]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    if reason := why_not("local"):
        pytest.skip(reason)
    with sandboxes.open("local") as local_sandbox:
        yield local_sandbox


class Broken:
    """A sandbox that is down."""

    def run(self, program: object, **options: object) -> Result:
        raise SandboxDied("gone")


class Printing:
    """A sandbox in which every program prints `stdout`."""

    def __init__(self, stdout: str, status: Status = Status.OK) -> None:
        self.result = Result(status, stdout=stdout)

    def run(self, program: object, **options: object) -> Result:
        return self.result


def test_a_right_program_passes_and_a_wrong_one_gets_its_share(sandbox: Sandbox) -> None:
    result = grade(sandbox, [RIGHT], "f", CASES)
    assert result.is_correct and result.share == 1.0 and result.summary == "4/4 right"
    assert result.metrics == {"passed": 1.0, "timeout": 0.0, "raised": 0.0}
    result = grade(sandbox, ["def f(xs): return sorted(xs)"], "f", CASES)
    assert (result.correct, result.is_correct, result.first_failure, result.summary) == (2, False, 0, "2/4 right")


@pytest.mark.parametrize("what", attacks("f"))
def test_no_attack_passes_a_single_case_that_is_not_trivial(sandbox: Sandbox, what: str) -> None:
    cases = [case for case in CASES if case.expected]
    result = grade(sandbox, [attacks("f")[what]], "f", cases, cpu_s=0.3)
    assert result.correct == 0, result


def test_slow_attacks_can_be_left_out() -> None:
    assert len(attacks("f")) > len(attacks("f", slow=False)) >= 15
    assert not any("while True: pass" in code for code in attacks("f", slow=False).values())


@pytest.mark.parametrize(
    ("program", "word", "metrics"),
    [
        ("def f(xs): return 1 / len(xs)", "0/4 right", (0, 1)),
        ("def f(xs): raise KeyError(7)", "0/4 right; KeyError: 7", (0, 1)),
        ("def f(xs):\n  while True: pass", "0/4 right; timeout", (1, 0)),
        ("while True: pass", "0/4 right; timeout", (1, 0)),
        ("def f(xs): return bytearray(1 << 31)", "0/4 right; MemoryError: ", (0, 1)),
        ("def f(xs", "0/4 right; SyntaxError: '(' was never closed (submission.py, line 1)", (0, 1)),
        ("f = 7", "0/4 right; TypeError: f is no function", (0, 1)),
        ("def g(xs): pass", "0/4 right; the program defines no function `f`, but `g`", (0, 1)),
        ("import math", "0/4 right; the program defines no function `f`", (0, 1)),
        ("class S:\n  def f(self, xs): pass", "0/4 right; the program defines no function `f`, but `S`", (0, 1)),
        ("def f(xs): return object()", "0/4 right; TypeError: a value of type object is no plain data", (0, 1)),
        ("import os\ndef f(xs): os._exit(0)", "0/4 right; the program ended", (0, 1)),
        ("class E(Exception): pass\ndef f(xs): raise E(f)", "0/4 right; E: <function f at 0x>", (0, 1)),
    ],
)
def test_an_error_of_the_program_is_scored_and_described(
    sandbox: Sandbox, program: str, word: str, metrics: tuple[int, int]
) -> None:
    result = grade(sandbox, [program], "f", CASES, cpu_s=0.3)
    assert result.summary.startswith(word.strip()) and not result.is_correct
    assert (result.metrics["timeout"], result.metrics["raised"]) == metrics


def test_calls_before_one_that_does_not_end_are_counted(sandbox: Sandbox) -> None:
    program = "def f(xs):\n    while len(xs) == 1: pass\n    return sorted(set(xs))"
    result = grade(sandbox, [program], "f", CASES, cpu_s=0.3)
    assert (result.correct, result.error, result.metrics["timeout"]) == (2, "timeout", 1.0)


def test_output_and_running_threads_of_a_program_do_not_matter(sandbox: Sandbox) -> None:
    noisy = (
        f"import threading, time\nprint('x' * 10**6)\n{RIGHT}\nthreading.Thread(target=time.sleep, args=[60]).start()"
    )
    assert grade(sandbox, [noisy], "f", CASES).is_correct


def test_subclasses_of_plain_types_are_read_as_plain(sandbox: Sandbox) -> None:
    program = """
import collections, enum
P = collections.namedtuple("P", "x y")
class N(enum.IntEnum): TWO = 2
def f(k): return [collections.Counter("aab"), collections.OrderedDict(a=1), P(1, 2), N.TWO][k]
"""
    expected = [{"a": 2, "b": 1}, {"a": 1}, (1, 2), 2]
    assert grade(sandbox, [program], "f", [Case((k,), one) for k, one in enumerate(expected)]).is_correct


def test_plain_values_survive_the_way_in_and_out(sandbox: Sandbox) -> None:
    result = run_submission(
        sandbox, ["def f(a, *, b): return a, b"], "f", [Call((one,), {"b": [one]}) for one in PLAIN]
    )
    assert [one.error for one in result.answers] == [""] * len(PLAIN)
    assert all(is_equal(answer.value, (value, [value])) for answer, value in zip(result.answers, PLAIN, strict=True))


def test_each_call_gets_arguments_of_its_own(sandbox: Sandbox) -> None:
    program = "kept = []\ndef f(xs):\n    kept.append(xs)\n    xs.append(1)\n    return len(kept[0])"
    assert grade(sandbox, [program], "f", [Case(([],), 1), Case(([],), 1)]).is_correct


@pytest.mark.parametrize("status", [Status.OK, Status.CPU_LIMIT])
@pytest.mark.parametrize(
    "lines",
    [
        "",
        "PASSED\n",
        '["value", [1, 3]]\n',
        '["loaded", ""]\n' + '["value", [1, 3]]\n' * 5,
        '["loaded", ""]\n["loaded", ""]\n',
        '["loaded", 1]\n["value", [1, 3]]\n',
        '["loaded", ""]\n["value", {"set": [[1]]}]\n',
        '["loaded", ""]\n["raised", 5]\n',
        '["loaded", ""]\n["verdict", true]\n',
        "[" * 100_000 + "\n",
        '{"int": "0x1"}\n',
    ],
)
def test_forged_lines_are_never_right(lines: str, status: Status) -> None:
    result = grade(Printing(lines, status), [RIGHT], "f", CASES)  # type: ignore[arg-type]
    assert not result.is_correct and result.error


def test_a_sandbox_error_gives_no_grade() -> None:
    with pytest.raises(SandboxDied):
        grade(Broken(), [RIGHT], "f", CASES)  # type: ignore[arg-type]


def test_expected_values_do_not_enter_the_sandbox() -> None:
    programs: list[str] = []

    class Recording(Printing):
        def run(self, program: object, **options: object) -> Result:
            programs.append(str(program))
            assert isinstance(options["limits"], Limits)
            return self.result

    cases = [Case(("given-1",), "wanted-1"), Case(("given-2",), "wanted-2")]
    grade(Recording(""), [RIGHT], "f", cases)  # type: ignore[arg-type]
    assert "given-1" in programs[0] and "given-2" in programs[0] and "wanted" not in programs[0]


@pytest.mark.parametrize(
    ("value", "expected", "tolerance", "equal"),
    [
        (1, 1, 0, True),
        (True, 1, 0, False),
        (1, True, 0, False),
        (1.0, 1, 0, False),
        (1, 1.0, 0, False),
        (1, 1.0, 1e-9, True),
        (True, 1.0, 1e-9, False),
        (1.0, 1, 1e-9, False),
        (0.1 + 0.2, 0.3, 0, False),
        (0.1 + 0.2, 0.3, 1e-9, True),
        (math.nan, math.nan, 0, True),
        (math.inf, math.inf, 1e-9, True),
        (10**400, 1.0, 1e-9, False),
        ((1, 2), [1, 2], 0, False),
        ([1, [True]], [1, [1]], 0, False),
        ([1, 2], [1, 2, 3], 0, False),
        ({1: 2}, {1: 2}, 0, True),
        ({1: 2}, {True: 2}, 0, False),
        ({1: [0.1 + 0.2]}, {1: [0.3]}, 1e-9, True),
        ({1, 2}, {2, 1}, 0, True),
        ({True}, {1}, 0, False),
        (frozenset({1}), {1}, 0, False),
        (None, 0, 0, False),
        ("", b"", 0, False),
    ],
)
def test_results_are_compared_in_value_and_type(value: object, expected: object, tolerance: float, equal: bool) -> None:
    assert is_equal(value, expected, tolerance) is equal


def test_missing_answers_are_wrong() -> None:
    assert compare(SubmissionRun((Answer(1),), "timeout"), [1, 1]).correct == 1
    assert not compare(SubmissionRun(), []).is_correct


def test_literals_evaluate_to_their_values() -> None:
    for one in [*PLAIN, PLAIN[13:]]:
        assert is_equal(eval(literal(one)), one)


def test_an_audit_flags_suspicious_programs_and_no_others(sandbox: Sandbox) -> None:
    bodies = {
        "frames": "import sys\ndef f(xs): sys._getframe(1); return sorted(set(xs))",
        "exits": "def f(xs):\n    if xs is None: exit()\n    return sorted(set(xs))",
        "files": "def f(xs):\n    try: open('/x')\n    except OSError: return sorted(set(xs))",
        "patches": "import math\nmath.pi = 3\ndef f(xs): return sorted(set(xs))",
        "processes": "import subprocess\ndef f(xs): return sorted(set(xs))",
        "tables": f"T = {list(range(100))}\ndef f(xs): return sorted(set(xs))",
        "unsteady": "seen = []\ndef f(xs):\n    seen.append(xs)\n    return sorted(set(xs)) if seen[0] == [3, 1, 3] else 0",
    }
    for flag, program in bodies.items():
        result = grade(sandbox, [program], "f", CASES)
        assert result.is_correct and flag in audit(sandbox, [program], "f", CASES, result), flag
    assert not audit(sandbox, ["def f(", RIGHT], "f", CASES, grade(sandbox, [RIGHT], "f", CASES))


def test_work_is_relative_to_the_reference_and_0_for_a_wrong_program(sandbox: Sandbox) -> None:
    cases = [Case((n,), n * (n - 1) // 2) for n in range(3000, 3060)]
    quick, slow = "def f(n): return sum(range(n))", "def f(n):\n    for _ in range(40): s = sum(range(n))\n    return s"
    assert relative_work(sandbox, [quick], quick, "f", cases) > 0.2
    assert relative_work(sandbox, [slow], quick, "f", cases) < 0.2
    assert relative_work(sandbox, ["def f(n): return 0"], quick, "f", cases) == 0.0
