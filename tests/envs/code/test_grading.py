"""Split grading: right programs pass, no wrong one does, and a fault of ours is no verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import sandboxes
from envs.code.grading.attacks import attacks
from envs.code.grading.audit import audit
from envs.code.grading.cpu_work import relative_work
from envs.code.grading.split_grading import Answer, Answers, Call, Case, ask, grade, judged, literal, same
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
    with sandboxes.open("local") as made:
        yield made


class Broken:
    """A sandbox that is down."""

    def run(self, program: object, **how: object) -> Result:
        raise SandboxDied("gone")


class Says:
    """A sandbox in which a program said something."""

    def __init__(self, stdout: str, status: Status = Status.OK) -> None:
        self.result = Result(status, stdout=stdout)

    def run(self, program: object, **how: object) -> Result:
        return self.result


def test_a_right_program_passes_and_a_wrong_one_gets_its_share(sandbox: Sandbox) -> None:
    found = grade(sandbox, [RIGHT], "f", CASES)
    assert found.right and found.share == 1.0 and found.word == "4/4 right"
    assert found.metrics == {"passed": 1.0, "timeout": 0.0, "raised": 0.0}
    found = grade(sandbox, ["def f(xs): return sorted(xs)"], "f", CASES)
    assert (found.passed, found.right, found.failed, found.word) == (2, False, 0, "2/4 right")


@pytest.mark.parametrize("what", attacks("f"))
def test_no_attack_passes_a_single_case_that_is_not_trivial(sandbox: Sandbox, what: str) -> None:
    cases = [case for case in CASES if case.wanted]
    found = grade(sandbox, [attacks("f")[what]], "f", cases, cpu_s=0.3)
    assert found.passed == 0, found


def test_there_are_many_attacks_and_the_slow_ones_can_be_left_out() -> None:
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
        ("def g(xs): pass", "0/4 right; KeyError: 'f'", (0, 1)),
        ("def f(xs): return object()", "0/4 right; TypeError: a value of type object is no plain data", (0, 1)),
        ("import os\ndef f(xs): os._exit(0)", "0/4 right; the program ended", (0, 1)),
        ("class E(Exception): pass\ndef f(xs): raise E(f)", "0/4 right; E: <function f at 0x>", (0, 1)),
    ],
)
def test_a_fault_of_the_program_is_a_score_with_a_word(
    sandbox: Sandbox, program: str, word: str, metrics: tuple[int, int]
) -> None:
    found = grade(sandbox, [program], "f", CASES, cpu_s=0.3)
    assert found.word.startswith(word.strip()) and not found.right
    assert (found.metrics["timeout"], found.metrics["raised"]) == metrics


def test_calls_before_one_that_does_not_end_are_counted(sandbox: Sandbox) -> None:
    program = "def f(xs):\n    while len(xs) == 1: pass\n    return sorted(set(xs))"
    found = grade(sandbox, [program], "f", CASES, cpu_s=0.3)
    assert (found.passed, found.fault, found.metrics["timeout"]) == (2, "timeout", 1.0)


def test_what_a_program_prints_and_leaves_running_does_not_matter(sandbox: Sandbox) -> None:
    noisy = (
        f"import threading, time\nprint('x' * 10**6)\n{RIGHT}\nthreading.Thread(target=time.sleep, args=[60]).start()"
    )
    assert grade(sandbox, [noisy], "f", CASES).right


def test_subclasses_of_plain_types_are_read_as_plain(sandbox: Sandbox) -> None:
    program = """
import collections, enum
P = collections.namedtuple("P", "x y")
class N(enum.IntEnum): TWO = 2
def f(k): return [collections.Counter("aab"), collections.OrderedDict(a=1), P(1, 2), N.TWO][k]
"""
    wanted = [{"a": 2, "b": 1}, {"a": 1}, (1, 2), 2]
    assert grade(sandbox, [program], "f", [Case((k,), one) for k, one in enumerate(wanted)]).right


def test_plain_values_go_in_and_come_back_as_they_are(sandbox: Sandbox) -> None:
    found = ask(sandbox, ["def f(a, *, b): return a, b"], "f", [Call((one,), {"b": [one]}) for one in PLAIN])
    assert [one.raised for one in found.answers] == [""] * len(PLAIN)
    assert all(same(one.value, (given, [given])) for one, given in zip(found.answers, PLAIN, strict=True))


def test_each_call_gets_arguments_of_its_own(sandbox: Sandbox) -> None:
    kept = "kept = []\ndef f(xs):\n    kept.append(xs)\n    xs.append(1)\n    return len(kept[0])"
    assert grade(sandbox, [kept], "f", [Case(([],), 1), Case(([],), 1)]).right


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
def test_lines_that_were_forged_are_never_right(lines: str, status: Status) -> None:
    found = grade(Says(lines, status), [RIGHT], "f", CASES)  # type: ignore[arg-type]
    assert not found.right and found.fault


def test_a_fault_of_ours_is_no_verdict() -> None:
    with pytest.raises(SandboxDied):
        grade(Broken(), [RIGHT], "f", CASES)  # type: ignore[arg-type]


def test_hidden_results_do_not_enter_the_sandbox() -> None:
    programs: list[str] = []

    class Listening(Says):
        def run(self, program: object, **how: object) -> Result:
            programs.append(str(program))
            assert isinstance(how["limits"], Limits)
            return self.result

    cases = [Case(("given-1",), "wanted-1"), Case(("given-2",), "wanted-2")]
    grade(Listening(""), [RIGHT], "f", cases)  # type: ignore[arg-type]
    assert "given-1" in programs[0] and "given-2" in programs[0] and "wanted" not in programs[0]


@pytest.mark.parametrize(
    ("found", "wanted", "tolerance", "equal"),
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
def test_results_are_compared_in_value_and_type(found: object, wanted: object, tolerance: float, equal: bool) -> None:
    assert same(found, wanted, tolerance) is equal


def test_missing_answers_are_wrong() -> None:
    assert judged(Answers((Answer(1),), "timeout"), [1, 1]).passed == 1
    assert not judged(Answers(), []).right


def test_literals_read_back_as_what_they_were() -> None:
    for one in [*PLAIN, PLAIN[13:]]:
        assert same(eval(literal(one)), one)


def test_an_audit_names_what_looks_dishonest_and_passes_what_does_not(sandbox: Sandbox) -> None:
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
        found = grade(sandbox, [program], "f", CASES)
        assert found.right and flag in audit(sandbox, [program], "f", CASES, found), flag
    assert not audit(sandbox, ["def f(", RIGHT], "f", CASES, grade(sandbox, [RIGHT], "f", CASES))


def test_work_is_relative_to_the_reference_and_nothing_for_a_wrong_program(sandbox: Sandbox) -> None:
    cases = [Case((n,), n * (n - 1) // 2) for n in range(3000, 3060)]
    quick, slow = "def f(n): return sum(range(n))", "def f(n):\n    for _ in range(40): s = sum(range(n))\n    return s"
    assert relative_work(sandbox, [quick], quick, "f", cases) > 0.2
    assert relative_work(sandbox, [slow], quick, "f", cases) < 0.2
    assert relative_work(sandbox, ["def f(n): return 0"], quick, "f", cases) == 0.0
