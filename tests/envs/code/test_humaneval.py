"""HumanEval and MBPP: tests run apart from what they test; the data sets' solutions pass, what cheats does not."""

from __future__ import annotations

import gc
import json
import os
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sandboxes
from envs.checks import check_env
from envs.checks.examined import constant, expert, play
from envs.code.grading import test_code as exams
from envs.code.grading.attacks import attacks
from envs.code.grading.single_submission import Submitted
from envs.code.grading.test_code import Exam, examine
from envs.code.humaneval import HumanEval
from envs.code.mbpp import MBPP
from envs.data import MissingData
from envs.shared_sandbox import Lease
from envs.types import assistant
from sandboxes import Result, Sandbox, Session
from tests.support.sandbox_hosts import processes, why_not

REAL = Path(os.environ.get("TURNWISE_DATA", "/nowhere")) / "humaneval"
ADD = {
    "task_id": "Toy/0",
    "prompt": 'from typing import List\n\n\ndef twice(xs: List[int]) -> List[int]:\n    """Double each."""\n    return [2 * x for x in xs]\n\n\n'
    'def plus(xs: List[int], k: int = 1) -> List[int]:\n    """Add k to each of xs.\n    >>> plus([1])\n    [2]\n    """\n',
    "entry_point": "plus",
    "canonical_solution": "    return [x + k for x in xs]\n",
    "test": "def check(candidate):\n    for n in range(4):\n        assert candidate(list(range(n)), 3) == [x + 3 for x in range(n)]\n"
    "    assert candidate([1], k=2) == [3]\n    assert candidate(twice([1, 2])) == [3, 5]\n    assert plus(plus([0])) == [2]\n",
}
SQUARE = {
    "task_id": 11,
    "text": "Write a function to square a number.",
    "code": "import math\r\ndef helper(n):\r\n  return n * n\r\ndef square(n):\r\n  return helper(n)",
    "test_list": ["assert square(2) == 4", "assert square(-3) == 9", "assert math.isclose(square(0.5), 0.25)"],
    "test_setup_code": "",
    "test_imports": ["import math"],
}
STEP = Exam("step", "f", "", ("assert f(f(1)) in (3, 7)", "assert f(5) == 6"), "def f(n): return n + 1")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    if reason := why_not("local"):
        pytest.skip(reason)
    lease = Lease("local")  # shared with the environments
    yield lease.sandbox
    lease.close()


@pytest.fixture
def opened(tmp_path: Path, sandbox: Sandbox) -> Iterator[Callable[..., Submitted]]:
    """Make an environment of rows; it is closed at the end."""
    made: list[Submitted] = []

    def make(kind: type[Submitted], *rows: dict, **how: object) -> Submitted:
        folder = tmp_path / ("humaneval" if kind is HumanEval else "mbpp")
        folder.mkdir(exist_ok=True)
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        made.append(kind(data_root=str(tmp_path), **how))
        return made[-1]

    yield make
    for env in made:
        env.close()


def won(env: Submitted, reply: str, index: int = 0) -> bool:
    return play(env, constant(reply), index=index).won


@pytest.mark.parametrize(
    "reply",
    [
        "    return [x + k for x in xs]\n",
        "return [x + k for x in xs]",
        "```python\ndef plus(xs: List[int], k: int = 1):\n    return [x + k for x in xs]\n```",
        "I add it:\n```python\nfrom typing import List\n\ndef plus(xs, k=1):\n    return [(twice([x])[0] + 2 * k) // 2 for x in xs]\n```\nDone.",
    ],
)
def test_a_continuation_and_a_whole_program_pass(opened: Callable[..., Submitted], reply: str) -> None:
    assert won(opened(HumanEval, ADD), reply)


@pytest.mark.parametrize(
    "reply", ["    pass", "    return xs", "    return [x + 3 for x in xs]", "", "def plus(xs): ...", "x"]
)
def test_a_wrong_program_does_not(opened: Callable[..., Submitted], reply: str) -> None:
    assert not won(opened(HumanEval, ADD), reply)


@pytest.mark.parametrize("what", attacks("plus", slow=False))
def test_no_attack_passes_the_tests(opened: Callable[..., Submitted], what: str) -> None:
    code = attacks("plus", slow=False)[what]
    assert not won(opened(HumanEval, ADD), f"```python\n{code}\n```")


def test_the_tests_stay_out_of_the_sandbox_of_the_submission(sandbox: Sandbox) -> None:
    programs: list[str] = []
    exams.idle(sandbox).clear()

    class Overheard:
        def __init__(self, session: Session) -> None:
            self.session = session

        def cell(self, source: str) -> Result:
            return self.session.cell(source)

        def call(self, *given: object, **how: object) -> Result:
            programs.append(repr(given))
            return self.session.call(*given, **how)  # type: ignore[arg-type]

    class Listening:
        def run(self, program: str, **how: object) -> Result:
            programs.append(program)
            return sandbox.run(program, **how)  # type: ignore[arg-type]

        def session(self, **how: object) -> Overheard:
            return Overheard(sandbox.session(**how))  # type: ignore[arg-type]

    secret = Exam("secret", "f", "hidden = 41", ("assert f(7) == hidden + 1, 'of-the-test'",), "def f(n): return 42")
    assert examine(Listening(), ["def f(n): return 6 * n"], secret, cpu_s=1.0).right  # type: ignore[arg-type]
    recording, theirs, examining = programs
    assert "return 42" in recording and "6 * n" in theirs and "of-the-test" in examining
    assert not any(secret in theirs for secret in ("of-the-test", "hidden = 41", "42"))
    assert "6 * n" not in recording + examining


def test_calls_that_depend_on_earlier_answers_are_made(sandbox: Sandbox) -> None:
    assert examine(sandbox, [STEP.reference], STEP, cpu_s=1.0).right
    found = examine(sandbox, ["def f(n): return {1: 4, 4: 7, 5: 6}[n]"], STEP, cpu_s=1.0)
    assert found.right and len(found.answers.answers) == 3
    assert examine(sandbox, ["def f(n): return 3 if n == 2 else 2"], STEP, cpu_s=1.0).passed == 1


def test_a_submission_that_is_asked_on_and_on_fails(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exams, "ROUNDS", 3)
    endless = Exam("endless", "f", "", ("n = 0\nwhile f(n) != 1: n += 1",), "def f(n): return 1")
    assert examine(sandbox, ["def f(n): return 0"], endless, cpu_s=1.0).passed == 0


def test_tests_that_expect_an_exception_see_its_kind(sandbox: Sandbox) -> None:
    test = "try:\n    f(0)\nexcept ZeroDivisionError:\n    pass\nelse:\n    raise AssertionError"
    exam = Exam("raises", "f", "", (test,), "def f(n): return 1 / n")
    assert examine(sandbox, [exam.reference], exam, cpu_s=1.0).right
    assert not examine(sandbox, ["def f(n): raise SystemExit"], exam, cpu_s=1.0).right
    assert not examine(sandbox, ["import os\ndef f(n): os._exit(0)"], exam, cpu_s=1.0).right


@pytest.mark.parametrize("answer", ["10 ** 100000", "[0] * 50000", "eval('[' * 88 + ']' * 88)", "'x' * 1000000"])
def test_an_answer_on_which_the_tests_choke_is_wrong_and_no_fault_of_ours(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    test = "given = f(1)\nwhile given != 1: pass"
    exam = Exam(f"chokes on {answer}", "f", "", (test,), "def f(n): return 1")
    examine(sandbox, [exam.reference], exam, cpu_s=1.0)
    exams.idle(sandbox).clear()  # they have the old limit
    monkeypatch.setattr(exams, "CPU_S", 0.3)
    assert not examine(sandbox, [f"def f(n): return {answer}"], exam, cpu_s=1.0).right


def test_an_exam_that_its_own_solution_fails_is_refused(sandbox: Sandbox) -> None:
    for name, test, word in (("false", "assert f(1) == 3", "AssertionError"), ("broken", "assert (", "SyntaxError")):
        with pytest.raises(ValueError, match=f"{name}: its own solution fails the tests with {word}"):
            examine(sandbox, ["def f(n): return 3"], Exam(name, "f", "", (test,), "def f(n): return 2"), cpu_s=1.0)
    objects = Exam("objects", "f", "class A: pass", ("assert f(A()) == 1",), "def f(a): return 1")
    with pytest.raises(ValueError, match="objects: its own solution fails the tests with TypeError"):
        examine(sandbox, [objects.reference], objects, cpu_s=1.0)


def test_mbpp_counts_assertions_and_shows_the_first(opened: Callable[..., Submitted]) -> None:
    env = opened(MBPP, SQUARE, SQUARE | {"task_id": 12, "test_setup_code": "root = Node(1)"}, partial=True)
    assert len(env.load("test")) == 1
    assert play(env, expert, index=0).won
    prompt = env.task.prompt[0]["content"]
    assert "assert square(2) == 4" in prompt and "-3" not in prompt
    episode = play(
        env, constant("```python\ndef square(n):\n    return abs(n) * 2 if n > 1 else abs(n) * 3\n```"), index=0
    )
    assert episode.total == pytest.approx(2 / 3) and not episode.won
    assert not won(env, "def square(n):\n    raise SystemExit(0)")


def test_mbpp_splits_by_the_official_numbers_and_reads_both_spellings(opened: Callable[..., Submitted]) -> None:
    rows = [SQUARE | {"task_id": number} for number in (1, 11, 510, 511, 600, 601, 974)]
    plain = {key: value for key, value in SQUARE.items() if key not in ("text", "test_setup_code")}
    env = opened(
        MBPP, *rows, plain | {"task_id": 12, "prompt": "Square it."}, SQUARE | {"task_id": 11, "text": "again"}
    )
    names = {split: [task.metadata["name"] for task in env.load(split)] for split in ("train", "val", "test")}
    assert names["test"] == ["MBPP/11", "MBPP/12", "MBPP/510"]
    assert names["val"] == ["MBPP/511", "MBPP/600"] and names["train"] == ["MBPP/601", "MBPP/974"]
    assert "Square it." in env.load("test")[1].prompt[0]["content"]


@pytest.mark.parametrize(
    ("kind", "row", "word"),
    [
        (HumanEval, ADD | {"test": None}, "rows.jsonl:1: field 'test' is None"),
        (MBPP, SQUARE | {"task_id": "11"}, "rows.jsonl:1: field 'task_id' is '11', not a number"),
        (MBPP, SQUARE | {"test_list": []}, "rows.jsonl:1: field 'test_list' is"),
        (MBPP, SQUARE | {"text": None}, "rows.jsonl:1: neither 'text' nor 'prompt' is a text"),
        (MBPP, SQUARE | {"test_list": ["assert other(1)"]}, "rows.jsonl:1: the first test calls no function"),
    ],
)
def test_a_malformed_row_is_an_error_with_its_place(
    opened: Callable[..., Submitted], kind: type[Submitted], row: dict, word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        opened(kind, row).load("test")


def test_a_split_without_rows_is_missing_data(opened: Callable[..., Submitted]) -> None:
    for kind, row in ((HumanEval, ADD), (MBPP, SQUARE)):
        with pytest.raises(MissingData, match="split 'train' needs"):
            opened(kind, row).load("train")


def test_threads_share_a_sandbox_and_its_sessions(sandbox: Sandbox) -> None:
    def passed(number: int) -> bool:
        test = f"assert f({number % 5}) == {number % 5 + 1}"
        exam = Exam(f"shared {number % 5}", "f", "", (test,), "def f(n): return n + 1")
        return examine(sandbox, [f"def f(n): return n + {1 + number % 2}"], exam, cpu_s=1.0).right

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(passed, range(24))) == [number % 2 == 0 for number in range(24)]
    assert 1 <= len(exams.idle(sandbox)) <= 4


def test_a_sandbox_that_is_forgotten_after_an_exam_is_closed() -> None:
    before = processes()
    sandbox = sandboxes.open("local", packages=())
    exam = Exam("twice", "f", "", ("assert f(2) == 4",), "def f(x): return 2 * x")
    assert examine(sandbox, ["def f(x): return x + x"], exam, cpu_s=5).right
    gone = weakref.ref(sandbox)
    del sandbox
    gc.collect()
    assert gone() is None and processes() <= before


def test_a_failing_machine_is_no_verdict(sandbox: Sandbox) -> None:
    class Dying:
        def session(self, **how: object) -> Session:
            raise sandboxes.SandboxDied("gone")

        def run(self, program: str, **how: object) -> Result:
            raise sandboxes.SandboxDied("gone")

    with pytest.raises(sandboxes.SandboxDied):
        examine(Dying(), ["x"], Exam("dying", "f", "", ("f()",), "def f(): pass"), cpu_s=1.0)  # type: ignore[arg-type]


@pytest.mark.slow
def test_with_training_rows_humaneval_keeps_every_promise(tmp_path: Path, sandbox: Sandbox) -> None:
    (tmp_path / "humaneval").mkdir()
    for name, numbers in (("test", range(6)), ("train", range(6, 14))):
        rows = [json.dumps(ADD | {"task_id": f"Toy/{n}", "prompt": f"# {n}\n{ADD['prompt']}"}) for n in numbers]
        (tmp_path / "humaneval" / f"{name}.jsonl").write_text("\n".join(rows))
    check_env("code/HumanEval-v0", tasks=1, data_root=str(tmp_path))


def test_equal_programs_vote_for_the_same_outside_an_episode_too(opened: Callable[..., Submitted]) -> None:
    env = opened(HumanEval, ADD)
    assert env.vote(assistant("```python\ndef plus(xs): pass\n```")) == env.vote(assistant("def plus( xs ):\n  pass"))
    assert env.vote(assistant("def plus(xs): return 1")) != env.vote(assistant("def plus(xs): return 2"))
    assert env.vote(assistant(" ")) is None


@pytest.mark.skipif(not REAL.is_dir(), reason="TURNWISE_DATA names no folder with humaneval/*.jsonl")
def test_the_real_solutions_pass_and_empty_constant_and_cheating_ones_do_not(sandbox: Sandbox) -> None:
    env = HumanEval(data_root=str(REAL.parent))
    try:
        total = len(env.load("test"))
        assert total and sum(play(env, expert, index=index).won for index in range(total)) == total
        cheats = ["    pass", "    return True", "    return 0", "    import os; os._exit(0)"]
        for cheat in cheats:
            assert not any(won(env, cheat, index) for index in range(0, total, 4)), cheat
        for index in range(0, total, 2):
            env.reset(options={"split": "test", "index": index})
            codes = list(attacks(env.exam.function, slow=False).values())
            assert not won(env, codes[index % len(codes)], index), env.task.metadata["name"]
    finally:
        env.close()
