"""One player writes a function, the other writes tests for it, until they agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.code.functions import Functions
from envs.code.grading.split_grading import Answer, Call, SubmissionRun, is_equal, literal, run_submission
from envs.code.synthesis.bank.template import FUNCTION
from envs.episodes.guide import Guide, count
from envs.games.game import check_range
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.multi.teams.score_rule import score_rule
from envs.types import Message, Task, assistant, final_text, user

CODER, TESTER = "coder", "tester"
TESTS = "the tester's tests"
FULL_MARKS = 3  # true tests for which the tester gets its whole share
MAX_LINE, MAX_SHOWN = 500, 100  # characters of a test, and of a value that is shown
_MARKER = re.compile(r"(?:[-*•]|\d{1,2}[.)])\s+")  # of a list


class Test(NamedTuple):
    """A call with the value that it should return."""

    line: str
    args: tuple[Any, ...]
    expected: Any


class CoderTester(MultiEnv):
    """Write a function in a team of two: a coder writes it, a tester writes tests, and both may mend theirs.

    Observation: both read what the function should do; then the tests that fail, with what the function returned. The
    tester does not see the program, nor the coder the tests that pass.
    Action: both at the same time. The coder's reply holds the function as in code/Functions-v0; the tester's ends with
    tests, one a line, perhaps in a code block: `f([1, 2]) == 3`, with literal values. In short style `;` divides them.
    Reward: at the end, for both, `team`: (1 - `local`) times 1 if the function is right on the hidden inputs and passes
    at least one true test. For each seat `local`: for the coder `local` times the share of the hidden inputs on which
    the last program is right, for the tester `local` times its true last tests over all of them, or over 3 if they are
    fewer. Both are named rewards. A test is true if the reference agrees.
    Episode end: terminated when the program passes all tests, or after `attempts` replies of both. Success: as for
    `team`.
    Arguments: `level`, `timeout`, `sandbox`, `sandbox_options` as for code/Functions-v0; `tests`, the most that are
    read; `attempts`; `local`, from 0 to 1.
    Seats: `coder`, `tester`; they win together. Opponents: `oracle` (the default) writes the reference, or true tests.
    Splits: those of code/Functions-v0. State: the task, the program and the tests.
    Source and licence: the setting of coder and tester in Stronger Together (arXiv:2510.11062), section 4, after its
    description; own code. Version history: v0.
    """

    seats = (CODER, TESTER)
    teammates = True
    blocking = True
    default_opponent = "oracle"

    def __init__(
        self,
        *,
        level: int = 0,
        tests: int = 5,
        attempts: int = 3,
        local: float = 0.5,
        timeout: float = 0.5,
        sandbox: str = "local",
        sandbox_options: Mapping[str, Any] | None = None,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        check_range("attempts", attempts, range(1, 21))
        self.most_tests = check_range("tests", tests, range(1, 51))
        if not 0 <= local <= 1:
            raise ValueError(f"local {local!r} is outside 0..1")
        super().__init__(max_turns=attempts if max_turns is None else max_turns, **limits)
        self.local = float(local)
        self.functions = Functions(
            level=level, timeout=timeout, sandbox=sandbox, sandbox_options=sandbox_options, style=self.style
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the functions."""
        return self.functions.load(split)

    def start(self) -> Round:
        """Tell both what the function should do."""
        options = {"split": self.split, "index": self.index}
        self.functions.reset(seed=int(self.np_random.integers(2**31)), options=options)
        self.sources: tuple[str, ...] = ()
        self.tests: list[Test] = []
        problem = self.functions.problem
        if self.style == "full":
            text = f"The function `{FUNCTION}({problem.params})` returns {problem.sentence}."
        else:
            text = f"{FUNCTION}({problem.params}): {problem.description}"
        return Round({seat: (user(text),) for seat in self.seats}, to_move=self.seats)

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Run the tests on the program, and finish or say which of them fail."""
        self.sources = self.functions.sources(final_text(replies[CODER]))
        self.tests = read_tests(final_text(replies[TESTER]), self.most_tests)
        run = self._run(self.sources)
        invalid = [CODER] if not run.is_compiled else []
        invalid += [] if self.tests else [TESTER]
        answers = [*run.answers, *[Answer(error=run.error or "no result")] * (len(self.tests) - len(run.answers))]
        failures = [
            (test, answer) for test, answer in zip(self.tests, answers, strict=True) if not self._agrees(test, answer)
        ]
        if (self.tests and run.is_compiled and not failures) or max(self.turns.values()) + 1 >= self.max_turns:
            successes = [test for test, answer in zip(self.tests, answers, strict=True) if self._agrees(test, answer)]
            return self._finish(successes, invalid)
        texts = {seat: (user(self._news(seat, run, failures)),) for seat in self.seats}
        return Round(texts, to_move=self.seats, invalid=invalid)

    def guide(self, seat: str) -> Guide:
        """Say what the seat writes."""
        common = (
            "After each round your tests are run on the program. The episode ends when it passes all of them. Else "
            "both of you read which tests fail and what the function returned; the mistake may be in the program or in "
            "a test, so each of you may mend its own or send it again as it is. The tester does not see the program."
        )
        params = self.functions.problem.params
        if seat == CODER:
            return Guide(
                goal=(
                    "You are the coder in a team of two. You write a Python function, and your teammate, the tester, "
                    "writes tests for it at the same time. You both succeed if in the end your function is right on "
                    "hidden arguments and passes at least one true test of the tester."
                ),
                rules=f"{common.replace('your tests', TESTS)} {self._score_rule(seat)}",
                reply="Reply with the whole function, and the imports it needs, in a block between ```python and ```.",
                thinking="You may think first; the last such block of your reply counts.",
                example=f"```python\ndef {FUNCTION}({params}):\n    return None\n```",
                ending="Your last reply counts.",
                invalid="A reply without a Python program counts as a program that fails all tests.",
                heading="The task:",
            )
        example = f"{FUNCTION}({', '.join('1' for _ in self.functions.problem.kinds)}) == 2"
        return Guide(
            goal=(
                "You are the tester in a team of two. Your teammate, the coder, writes a Python function, and you "
                "write "
                "tests for it at the same time. You both succeed if in the end the function is right on hidden "
                "arguments and passes at least one of your tests, which has to be true."
            ),
            rules=f"{common} {self._score_rule(seat)}",
            reply=(
                f"End your reply with one to {self.most_tests} tests, each on a line of its own; later ones are not "
                f"read. {self._test_rule()}"
            ),
            thinking="You may think first; the lines at the end of your reply that are tests count.",
            example=f"{example}\n{example.replace('1', '5').replace('2', '10')}",
            ending="Your last reply counts.",
            invalid="A reply that does not end with a test counts as no test.",
            heading="The function, which the coder writes:",
        )

    def secrets(self, seat: str) -> Sequence[str]:
        """Return the coder's last program, if it is more than an expression."""
        return [source for source in self.sources[:1] if seat == CODER and "return" in source]

    def state(self) -> str:
        """Return the task, the round, the program and the tests."""
        return f"{self.task.id} {self.rounds} {self.sources[:1]} {[test.line for test in self.tests]}"

    def oracle(self, seat: str) -> Message:
        """Write the reference, or tests of the hidden kind with the right values."""
        problem = self.functions.problem
        if seat == CODER:
            return assistant(problem.shortest if self.style != "full" else f"```python\n{problem.source}```")
        lines = [
            f"{FUNCTION}({', '.join(map(literal, case.args))}) == {literal(case.expected)}"
            for case in self.functions.cases()
        ]
        fitting = [line for line in lines if read_tests(line, 1)]
        return assistant((";" if self.style == "short" else "\n").join(fitting[: min(FULL_MARKS, self.most_tests)]))

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Write a short expression, or a test with random numbers."""
        if seat == CODER:
            return self.functions.random(rng)
        numbers = ", ".join(str(int(rng.integers(10))) for _ in self.functions.problem.kinds)
        return assistant(f"{FUNCTION}({numbers}) == {int(rng.integers(100))}")

    def close(self) -> None:
        """Release the share in the sandbox."""
        self.functions.close()

    def _test_rule(self) -> str:
        return (
            f"A test is a call of {FUNCTION} with literal values, then ==, then the literal value that it should "
            "return, in value and type, without arithmetic; nothing stands after the tests."
        )

    def _score_rule(self, seat: str) -> str:
        own = {
            CODER: "times the share of the hidden arguments on which your last function is right",
            TESTER: f"times the share of your last tests that are true, out of at least {FULL_MARKS} different tests",
        }
        return score_rule(self.local, own[seat])

    def _run(self, sources: Sequence[str]) -> SubmissionRun:
        """Run the tests' calls on a program."""
        calls = [Call(test.args) for test in self.tests]
        return run_submission(self.functions.lease.sandbox, sources, FUNCTION, calls, cpu_s=self.functions.timeout)

    def _agrees(self, test: Test, answer: Answer) -> bool:
        tolerance = self.functions.problem.template.tolerance
        return not answer.error and is_equal(answer.value, test.expected, tolerance)

    def _finish(self, successes: Sequence[Test], invalid: Sequence[str]) -> Round:
        grade = self.functions.grade(self.sources)
        answers = self._run([self.functions.problem.source]).answers if self.tests else ()
        true_tests = [test for test, answer in zip(self.tests, answers, strict=False) if self._agrees(test, answer)]
        success = grade.is_correct and any(test in successes for test in true_tests)
        own = {CODER: grade.share, TESTER: len(true_tests) / max(FULL_MARKS, len(self.tests))}
        parts = {seat: {"team": (1 - self.local) * success, "local": self.local * share} for seat, share in own.items()}
        end = (
            f"The function is right on {grade.correct} of {count(grade.total, 'hidden input')}, and "
            f"{len(true_tests)} of {count(len(self.tests), 'different test')} "
            f"{'is' if 1 in (len(true_tests), len(self.tests)) else 'are'} true."
        )
        return Round(
            {seat: (user(end),) for seat in self.seats} if self.style == "full" else {},
            {seat: sum(values.values()) for seat, values in parts.items()},
            success=dict.fromkeys(self.seats, success),
            invalid=invalid,
            parts=parts,
        )

    def _news(self, seat: str, run: SubmissionRun, failures: Sequence[tuple[Test, Answer]]) -> str:
        """What a seat reads after a round that has not ended the episode."""
        lines = [f"{test.line}: {_shown(test, answer)}" for test, answer in failures]
        if self.style != "full":
            return ";".join(lines) or "?"
        if not run.is_compiled:
            news = "The coder's reply has no Python program that can be compiled."
        elif not self.tests:
            news = "The tester's reply does not end with a test, so no test was run."
            if seat == TESTER:
                news += f" {self._test_rule()}"
        else:
            number = f"{len(failures)} of {count(len(self.tests), 'test')}"
            news = "\n".join((f"The program fails {number}. After each colon is what it returned:", *lines))
        task = "Send your program, mended or as it is." if seat == CODER else "Send your tests, mended or as they are."
        return f"{news}\n{task}"


def read_tests(reply: str, most: int) -> list[Test]:
    """Return the tests that a reply ends with, each once, at most `most` of them, the first ones.

    They stand one a line, or on one line with `;` between them, perhaps in a list or a code block that ends the reply.
    """
    tests: list[Test] = []
    for line in reversed(reply.strip().splitlines()):
        if not line.strip() or line.strip().startswith("```"):
            continue
        parts = [_read_test(text) for text in line.split(";") if text.strip()]
        if not parts or None in parts:
            break
        tests = [*(test for test in parts if test is not None), *tests]
    return [*{(repr(test.args), repr(test.expected)): test for test in tests}.values()][:most]


def _read_test(line: str) -> Test | None:
    line = _MARKER.sub("", line.strip(), count=1) if _MARKER.match(line.strip()) else line
    line = line.strip(" `").removeprefix("assert ").strip()
    if len(line) > MAX_LINE:
        return None
    try:
        node = ast.parse(line, mode="eval").body
        if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Call) or len(node.ops) != 1:
            return None
        call = node.left
        is_call = isinstance(call.func, ast.Name) and call.func.id == FUNCTION and not call.keywords
        if not is_call or not isinstance(node.ops[0], ast.Eq):
            return None
        return Test(line, tuple(map(ast.literal_eval, call.args)), ast.literal_eval(node.comparators[0]))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _shown(test: Test, answer: Answer) -> str:
    """What a call returned, with its type if only that is not as expected; or why it returned nothing."""
    value = answer.error or literal(answer.value)[:MAX_SHOWN]
    if answer.error or type(answer.value) is type(test.expected) or answer.value != test.expected:
        return value
    return f"{value} ({type(answer.value).__name__}, not {type(test.expected).__name__})"
