"""HumanEval and MBPP: tests run apart from the submission; the data sets' solutions pass, cheating programs fail."""

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
from envs.checks.env_under_test import constant_replies, oracle_replies, play
from envs.code.abstract_envs.submission_env import SubmissionEnv
from envs.code.grading import unit_tests
from envs.code.grading.attacks import attacks
from envs.code.grading.unit_tests import UnitTestSuite, grade_by_tests
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
STEP = UnitTestSuite("step", "f", "", ("assert f(f(1)) in (3, 7)", "assert f(5) == 6"), "def f(n): return n + 1")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    if reason := why_not("local"):
        pytest.skip(reason)
    lease = Lease("local")  # shared with the environments
    yield lease.sandbox
    lease.close()


@pytest.fixture
def make_env(tmp_path: Path, sandbox: Sandbox) -> Iterator[Callable[..., SubmissionEnv]]:
    """Make environments from rows; they are closed at the end."""
    envs: list[SubmissionEnv] = []

    def make(kind: type[SubmissionEnv], *rows: dict, **options: object) -> SubmissionEnv:
        folder = tmp_path / ("humaneval" if kind is HumanEval else "mbpp")
        folder.mkdir(exist_ok=True)
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        envs.append(kind(data_root=str(tmp_path), **options))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


def is_right(env: SubmissionEnv, reply: str, index: int = 0) -> bool:
    return play(env, constant_replies(reply), index=index).success


@pytest.mark.parametrize(
    "reply",
    [
        "    return [x + k for x in xs]\n",
        "return [x + k for x in xs]",
        "```python\ndef plus(xs: List[int], k: int = 1):\n    return [x + k for x in xs]\n```",
        "I add it:\n```python\nfrom typing import List\n\ndef plus(xs, k=1):\n    return [(twice([x])[0] + 2 * k) // 2 for x in xs]\n```\nDone.",
    ],
)
def test_a_continuation_and_a_whole_program_pass(make_env: Callable[..., SubmissionEnv], reply: str) -> None:
    assert is_right(make_env(HumanEval, ADD), reply)


@pytest.mark.parametrize(
    "reply", ["    pass", "    return xs", "    return [x + 3 for x in xs]", "", "def plus(xs): ...", "x"]
)
def test_a_wrong_program_does_not(make_env: Callable[..., SubmissionEnv], reply: str) -> None:
    assert not is_right(make_env(HumanEval, ADD), reply)


@pytest.mark.parametrize("what", attacks("plus", slow=False))
def test_no_attack_passes_the_tests(make_env: Callable[..., SubmissionEnv], what: str) -> None:
    code = attacks("plus", slow=False)[what]
    assert not is_right(make_env(HumanEval, ADD), f"```python\n{code}\n```")


def test_the_tests_stay_out_of_the_sandbox_of_the_submission(sandbox: Sandbox) -> None:
    programs: list[str] = []
    unit_tests.idle_sessions(sandbox).clear()

    class RecordingSession:
        def __init__(self, session: Session) -> None:
            self.session = session

        def cell(self, source: str) -> Result:
            return self.session.cell(source)

        def call(self, *arguments: object, **options: object) -> Result:
            programs.append(repr(arguments))
            return self.session.call(*arguments, **options)  # type: ignore[arg-type]

    class RecordingSandbox:
        def run(self, program: str, **options: object) -> Result:
            programs.append(program)
            return sandbox.run(program, **options)  # type: ignore[arg-type]

        def session(self, **options: object) -> RecordingSession:
            return RecordingSession(sandbox.session(**options))  # type: ignore[arg-type]

    secret = UnitTestSuite(
        "secret", "f", "hidden = 41", ("assert f(7) == hidden + 1, 'of-the-test'",), "def f(n): return 42"
    )
    assert grade_by_tests(RecordingSandbox(), ["def f(n): return 6 * n"], secret, cpu_s=1.0).is_correct  # type: ignore[arg-type]
    recording, *_, theirs, examining = programs  # between them the suite is checked
    assert "return 42" in recording and "6 * n" in theirs and "of-the-test" in examining
    assert not any(secret in theirs for secret in ("of-the-test", "hidden = 41", "42"))
    assert "6 * n" not in recording + examining


def test_calls_that_depend_on_earlier_answers_are_made(sandbox: Sandbox) -> None:
    assert grade_by_tests(sandbox, [STEP.reference], STEP, cpu_s=1.0).is_correct
    grade = grade_by_tests(sandbox, ["def f(n): return {1: 4, 4: 7, 5: 6}[n]"], STEP, cpu_s=1.0)
    assert grade.is_correct and len(grade.run.answers) == 3
    assert grade_by_tests(sandbox, ["def f(n): return 3 if n == 2 else 2"], STEP, cpu_s=1.0).correct == 1


def test_a_submission_that_causes_ever_more_calls_fails(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_tests, "ROUNDS", 3)
    endless = UnitTestSuite("endless", "f", "", ("n = 0\nwhile f(n) != 1: n += 1",), "def f(n): return 1")
    assert grade_by_tests(sandbox, ["def f(n): return 0"], endless, cpu_s=1.0).correct == 0


def test_tests_that_expect_an_exception_see_its_kind(sandbox: Sandbox) -> None:
    test = "try:\n    f(0)\nexcept ZeroDivisionError:\n    pass\nelse:\n    raise AssertionError"
    suite = UnitTestSuite("raises", "f", "", (test,), "def f(n): return 1 / n")
    assert grade_by_tests(sandbox, [suite.reference], suite, cpu_s=1.0).is_correct
    assert not grade_by_tests(sandbox, ["def f(n): raise SystemExit"], suite, cpu_s=1.0).is_correct
    assert not grade_by_tests(sandbox, ["import os\ndef f(n): os._exit(0)"], suite, cpu_s=1.0).is_correct


@pytest.mark.parametrize("answer", ["10 ** 100000", "[0] * 50000", "eval('[' * 88 + ']' * 88)", "'x' * 1000000"])
def test_an_answer_with_which_the_tests_fail_to_end_is_wrong_and_raises_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    test = "given = f(1)\nwhile given != 1: pass"
    suite = UnitTestSuite(f"chokes on {answer}", "f", "", (test,), "def f(n): return 1")
    grade_by_tests(sandbox, [suite.reference], suite, cpu_s=1.0)
    unit_tests.idle_sessions(sandbox).clear()  # they have the old limit
    monkeypatch.setattr(unit_tests, "CPU_S", 0.3)
    assert not grade_by_tests(sandbox, [f"def f(n): return {answer}"], suite, cpu_s=1.0).is_correct


def test_the_solutions_of_good_suites_are_not_named(
    make_env: Callable[..., SubmissionEnv], caplog: pytest.LogCaptureFixture
) -> None:
    for kind, row in ((HumanEval, ADD), (HumanEval, LUCKY), (MBPP, SQUARE)):
        assert play(make_env(kind, row), oracle_replies, index=0).success
    assert not caplog.messages


def test_a_broken_row_is_named_with_its_file_when_its_tests_are_recorded(
    make_env: Callable[..., SubmissionEnv],
) -> None:
    env = make_env(HumanEval, ADD | {"canonical_solution": "    return xs\n"})
    with pytest.raises(ValueError, match=r"rows.jsonl:1: Toy/0: its own solution fails the tests with AssertionError"):
        play(env, oracle_replies, index=0)


def test_mbpp_names_the_function_that_a_program_lacks(make_env: Callable[..., SubmissionEnv]) -> None:
    env = make_env(MBPP, SQUARE)
    env.reset(seed=0, options={"split": "test", "index": 0})
    messages, reward, *_, info = env.step("```python\ndef squared(n):\n    return n * n\n```")
    assert reward == 0 and info["valid"]
    assert messages[0]["content"].startswith("0/3 right; the program defines no function `square`, but `squared`")


def test_mbpp_says_once_how_many_rows_it_leaves_out_and_why(
    make_env: Callable[..., SubmissionEnv], caplog: pytest.LogCaptureFixture
) -> None:
    rows = [SQUARE | {"task_id": number} for number in (11, 11, 12, 975, 3, 2)]
    rows[2]["test_setup_code"] = "root = Node(1)"
    env = make_env(MBPP, *rows)
    for _ in range(2):
        assert len(env.tasks("test")) == 1
    (line,) = caplog.messages
    assert line.endswith(
        "5 of 6 rows left out: 3 with a task_id outside 11 to 974, 1 with test_setup_code, 1 with the task_id of another row"
    )


def test_a_split_whose_rows_are_all_left_out_says_so(make_env: Callable[..., SubmissionEnv]) -> None:
    env = make_env(MBPP, SQUARE | {"test_setup_code": "root = Node(1)"})
    with pytest.raises(MissingData, match=r"split 'test' needs rows .*; left out of 1 rows: 1 with test_setup_code"):
        env.load("test")


def test_mbpp_counts_assertions_and_shows_the_first(make_env: Callable[..., SubmissionEnv]) -> None:
    env = make_env(MBPP, SQUARE, SQUARE | {"task_id": 12, "test_setup_code": "root = Node(1)"}, partial=True)
    assert len(env.load("test")) == 1
    assert play(env, oracle_replies, index=0).success
    prompt = env.task.prompt[0]["content"]
    assert "assert square(2) == 4" in prompt and "-3" not in prompt
    episode = play(
        env, constant_replies("```python\ndef square(n):\n    return abs(n) * 2 if n > 1 else abs(n) * 3\n```"), index=0
    )
    assert episode.total_reward == pytest.approx(2 / 3) and not episode.success
    assert not is_right(env, "def square(n):\n    raise SystemExit(0)")


def test_mbpp_splits_by_the_official_numbers_and_reads_both_spellings(make_env: Callable[..., SubmissionEnv]) -> None:
    rows = [SQUARE | {"task_id": number} for number in (1, 11, 510, 511, 600, 601, 974)]
    plain = {key: value for key, value in SQUARE.items() if key not in ("text", "test_setup_code")}
    env = make_env(
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
        (HumanEval, ADD | {"test": "assert plus([1]) == [2]"}, "rows.jsonl:1: field 'test' defines no function check"),
        (HumanEval, ADD | {"test": "def check(candidate:\n"}, "rows.jsonl:1: field 'test' is no Python, line 1: "),
        (
            HumanEval,
            ADD | {"entry_point": "foo"},
            "rows.jsonl:1: field 'entry_point' is 'foo', which the fields 'prompt'",
        ),
        (HumanEval, ADD | {"entry_point": "foo"}, "twice, plus$"),
        (MBPP, SQUARE | {"test_list": ["assert square(2"]}, "rows.jsonl:1: field 'test_list', test 1 is no Python"),
        (MBPP, SQUARE | {"task_id": "11"}, "rows.jsonl:1: field 'task_id' is '11', not a number"),
        (MBPP, SQUARE | {"test_list": []}, "rows.jsonl:1: field 'test_list' is"),
        (MBPP, SQUARE | {"text": None}, "rows.jsonl:1: neither 'text' nor 'prompt' is a text"),
        (MBPP, SQUARE | {"test_list": ["assert other(1)"]}, "rows.jsonl:1: the first test calls no function"),
    ],
)
def test_a_malformed_row_is_an_error_with_its_place(
    make_env: Callable[..., SubmissionEnv], kind: type[SubmissionEnv], row: dict, word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        make_env(kind, row).load("test")


def test_a_split_without_rows_is_missing_data(make_env: Callable[..., SubmissionEnv]) -> None:
    for kind, row in ((HumanEval, ADD), (MBPP, SQUARE)):
        with pytest.raises(MissingData, match="split 'train' needs"):
            make_env(kind, row).load("train")


def test_threads_share_a_sandbox_and_its_sessions(sandbox: Sandbox) -> None:
    def passes(number: int) -> bool:
        test = f"assert f({number % 5}) == {number % 5 + 1}"
        suite = UnitTestSuite(f"shared {number % 5}", "f", "", (test,), "def f(n): return n + 1")
        return grade_by_tests(sandbox, [f"def f(n): return n + {1 + number % 2}"], suite, cpu_s=1.0).is_correct

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(passes, range(24))) == [number % 2 == 0 for number in range(24)]
    assert 1 <= len(unit_tests.idle_sessions(sandbox)) <= 4


def test_a_sandbox_that_is_collected_after_grading_is_closed() -> None:
    before = processes()
    sandbox = sandboxes.open("local", packages=())
    suite = UnitTestSuite("twice", "f", "", ("assert f(2) == 4",), "def f(x): return 2 * x")
    assert grade_by_tests(sandbox, ["def f(x): return x + x"], suite, cpu_s=5).is_correct
    reference = weakref.ref(sandbox)
    del sandbox
    gc.collect()
    assert reference() is None and processes() <= before


def test_a_sandbox_error_gives_no_grade(sandbox: Sandbox) -> None:
    class DeadSandbox:
        def session(self, **options: object) -> Session:
            raise sandboxes.SandboxDied("gone")

        def run(self, program: str, **options: object) -> Result:
            raise sandboxes.SandboxDied("gone")

    with pytest.raises(sandboxes.SandboxDied):
        grade_by_tests(DeadSandbox(), ["x"], UnitTestSuite("dying", "f", "", ("f()",), "def f(): pass"), cpu_s=1.0)  # type: ignore[arg-type]


@pytest.mark.slow
def test_with_training_rows_humaneval_passes_every_check(tmp_path: Path, sandbox: Sandbox) -> None:
    (tmp_path / "humaneval").mkdir()
    for name, numbers in (("test", range(6)), ("train", range(6, 14))):
        rows = [json.dumps(ADD | {"task_id": f"Toy/{n}", "prompt": f"# {n}\n{ADD['prompt']}"}) for n in numbers]
        (tmp_path / "humaneval" / f"{name}.jsonl").write_text("\n".join(rows))
    check_env("code/HumanEval-v0", tasks=1, data_root=str(tmp_path))


LUCKY = ADD | {  # its tests draw the right answers, which the function has to restore from its input
    "prompt": "def moved(s):\n    return s[1:] + s[:1]\n\n\ndef restored(s):\n",
    "entry_point": "restored",
    "canonical_solution": "    return s[-1:] + s[:-1]\n",
    "test": "def check(candidate):\n    import random\n    for _ in range(20):\n"
    "        right = ''.join(random.choice('abcdefgh') for _ in range(random.randint(5, 9)))\n"
    "        assert candidate(moved(right)) == right\n",
}
GUESS = """
import random
{luck}
def restored(s):
    return ''.join(random.choice('abcdefgh') for _ in range(random.randint(5, 9)))
"""


@pytest.mark.parametrize("luck", ["", *(f"random.seed({seed})" for seed in (0, 1, 42, "None", "''"))])
def test_a_program_cannot_draw_the_answers_that_the_tests_drew(
    make_env: Callable[..., SubmissionEnv], luck: str
) -> None:
    env = make_env(HumanEval, LUCKY)
    assert play(env, oracle_replies, seed=3).success
    assert not play(env, constant_replies(GUESS.format(luck=luck)), seed=3).success


def test_random_inputs_of_tests_follow_from_the_seed_of_the_episode_alone(
    make_env: Callable[..., SubmissionEnv],
) -> None:
    env, other = make_env(HumanEval, LUCKY), make_env(HumanEval, LUCKY)
    seeds = []
    for place, seed in ((env, 3), (env, 4), (other, 3)):
        place.reset(seed=seed)
        seeds.append(place.test_seed)
    assert seeds[0] == seeds[2] != seeds[1]


def test_luck_is_drawn_anew_for_each_seed_and_the_same_for_the_same_seed(sandbox: Sandbox) -> None:
    module = "import random\nimport numpy\n"
    for draw in ("random.random()", "numpy.random.random()"):
        test = f"assert f({draw}) == 1"
        suite = UnitTestSuite(f"luck {draw}", "f", module, (test, test), "def f(x): return 1")
        runs = []
        for seed in (5, 6, 5):
            grade_by_tests(sandbox, [suite.reference], suite, cpu_s=1.0, seed=seed)
            source = "def f(x): return x"
            runs.append(grade_by_tests(sandbox, [source], suite, cpu_s=1.0, seed=seed).run.answers)
        assert runs[0] == runs[2] != runs[1] and runs[0][0] == runs[0][1]


def test_equal_programs_have_equal_votes_outside_an_episode_too(make_env: Callable[..., SubmissionEnv]) -> None:
    env = make_env(HumanEval, ADD)
    assert env.vote(assistant("```python\ndef plus(xs): pass\n```")) == env.vote(assistant("def plus( xs ):\n  pass"))
    assert env.vote(assistant("def plus(xs): return 1")) != env.vote(assistant("def plus(xs): return 2"))
    assert env.vote(assistant(" ")) is None


@pytest.mark.skipif(not REAL.is_dir(), reason="TURNWISE_DATA names no folder with humaneval/*.jsonl")
def test_the_real_solutions_pass_and_empty_constant_and_cheating_ones_do_not(sandbox: Sandbox) -> None:
    env = HumanEval(data_root=str(REAL.parent))
    try:
        total = len(env.load("test"))
        assert total and sum(play(env, oracle_replies, index=index).success for index in range(total)) == total
        cheats = ["    pass", "    return True", "    return 0", "    import os; os._exit(0)"]
        for cheat in cheats:
            assert not any(is_right(env, cheat, index) for index in range(0, total, 4)), cheat
        for index in range(0, total, 2):
            env.reset(options={"split": "test", "index": index})
            codes = list(attacks(env.suite.function, slow=False).values())
            assert not is_right(env, codes[index % len(codes)], index), env.task.metadata["name"]
    finally:
        env.close()
