"""Repair a wrong program over several turns; each turn shows one input that it gets wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from envs.code.abstract_envs.submission_env import CODE_THINKING
from envs.code.grading.attacks import attacks
from envs.code.grading.extraction import extract_programs
from envs.code.grading.feedback import describe_failure, in_sentence
from envs.code.grading.split_grading import Answer, Case, Grade, grade
from envs.code.synthesis import bank
from envs.code.synthesis.bank.template import FUNCTION, Problem
from envs.code.synthesis.mutants import sample_mutant
from envs.env import Env
from envs.episodes.guide import Guide, replies_left
from envs.procedural import digest, drawn
from envs.shared_sandbox import Lease, check_seconds
from envs.tools.tool_calls import reply_text
from envs.types import Message, Messages, Outcome, Task, assistant, final_line, text, user

KEY = "code/Repair-v0"
LENGTHS = {"train": 5_000, "val": 50, "test": 100}
INPUTS = 12  # visible ones, and at most so many hidden ones
MIN_HIDDEN = 4  # hidden inputs of a task
MORE = "more"
MAX_TRIES = 1000  # to draw a function that has a mutant


class Repair(Env):
    """Make a wrong function right.

    Observation: what the function should return, the wrong one, and the first visible input that it gets wrong:
    `x plus 7`, `x-7`, `f(0) is -7, not 7`; then the first such input of each new program, or why it failed,
    `f(0) fails, NameError: name 'y' is not defined; should be 7`; `?` after a reply that is no program. With `remind`,
    `2 left` after it, the turns left. In full style the instructions first, and sentences. With `describe=False` the
    first line is missing, and the inputs must tell what the function is.
    Action: the whole program, in ```python fences or bare: what the function returns, as an expression (`x+7`), its
    body, or all of it. With `extend`, also `more`, which asks for that many more turns and is granted once.
    Reward: a program that gets all visible inputs right is thereby submitted: 1 if it is right on all hidden ones too,
    else 0. `more` costs `cost` when it is granted. Named parts: `right`, and `turns`, which is -`cost` or 0.
    Metrics: `visible`, the share of the visible inputs that a program gets right; `hidden`, that of the hidden ones at
    the end; `timeout` and `raised` as in `code/Functions-v0`; `extended`, whether more turns were granted.
    Episode end: terminated by a program that gets all visible inputs right; truncated after `max_turns`, by default 3,
    and `extend` more if they were granted; the reply `more` is not counted.
    Arguments: `level`, the functions of `code/Functions-v0`: 0 and 1 (expressions), 2 (loops), 3 and 4 (algorithms),
    each with a bug of one of twelve families; `describe`, `remind`, `extend`, `cost`; `timeout`, CPU seconds for all
    visible inputs, and again for all hidden ones; `sandbox`, `sandbox_options` as for `sandboxes.open`.
    Splits: a function, whatever its bug, stands in one split only. Both kinds of inputs belong to the task;
    no hidden one is visible.
    State: the observations so far, whether more turns were granted, and the turns left.
    Source and licence: generated. Version history: v0.
    """

    blocking = True
    max_turns = 3

    def __init__(
        self,
        *,
        level: int = 0,
        describe: bool = True,
        remind: bool = True,
        extend: int = 0,
        cost: float = 0.1,
        timeout: float = 0.5,
        sandbox: str = "local",
        sandbox_options: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        for name, value, most in (("level", level, len(bank.LEVELS) - 1), ("extend", extend, 100)):
            if isinstance(value, bool) or value not in range(most + 1):
                raise ValueError(f"{name} {value!r} is outside 0..{most}")
        if not 0 <= cost < 1:
            raise ValueError(f"cost {cost!r} is outside 0..1, 1 not included")
        self.level, self.describe, self.remind = level, bool(describe), bool(remind)
        self.extend, self.cost, self.timeout = extend, float(cost), check_seconds("timeout", timeout)
        self._base_turns = self.max_turns
        self._lease = Lease(sandbox, sandbox_options)

    def tasks(self, split: str) -> Sequence[Task]:
        """Random members of the level's templates with a bug each; they depend on no other argument."""
        return _load_split(self.level, split)

    def start(self) -> Messages:
        """Show the wrong program and an input that it gets wrong."""
        metadata = self.task.metadata
        self.problem = bank.find_template(metadata["template"]).member(metadata["constants"])
        self._visible_cases, self._hidden_cases = _sample_cases(self.problem)
        self.max_turns = self._base_turns
        self._is_extended = False
        self._feedback = {metadata["wrong"]}
        if self.style == "full":
            statement = [f"The function should return {self.problem.sentence}."] if self.describe else []
            program = [
                "This is the wrong program:",
                "```python",
                _whole(metadata["program"], self.problem.params),
                "```",
            ]
            return (user("\n".join([*statement, *program, in_sentence(metadata["wrong"])])),)
        description = [self.problem.description] if self.describe else []
        lines = [*description, metadata["program"].rstrip(), metadata["wrong"], *self._reminder(0)]
        return (user("\n".join(lines)),)

    def guide(self) -> Guide:
        """Say what is asked, what a reply holds, and what is told after it."""
        more = (
            f" If you need more replies, reply with the one word {MORE}: you then get {self.extend} more. This is "
            f"granted once and lowers your reward by {self.cost:g}."
        )
        hint = "" if self.describe else " You are not told what the function should do; find out from the inputs."
        return Guide(
            goal=(
                f"Correct a wrong Python function `{FUNCTION}`.{hint} You succeed if your program is right on some "
                "inputs that are used to test each reply, and then also on hidden inputs."
            ),
            rules=(
                "After each wrong program you are told the first input on which it fails. As soon as a program is "
                "right on all of these inputs, it is tested on the hidden ones, and that decides."
                f"{more if self.extend else ''}"
            ),
            reply="Reply with the whole corrected function in a block between ```python and ```.",
            thinking=CODE_THINKING,
            example=f"```python\ndef {FUNCTION}({self.problem.params}):\n    return None\n```",
            ending="The episode ends when a program is tested on the hidden inputs.",
            invalid="A reply without a Python program uses up a reply.",
            heading="The task:",
        )

    def state(self) -> str:
        """The feedback so far, in any order, and the turns left."""
        feedback = f"{digest(sorted(self._feedback)):016x}"
        left = self.max_turns - self.turns
        return f"{self.task.id} told {feedback} extended {int(self._is_extended)} left {left}"

    def reply(self, action: Message) -> Outcome:
        """Grade a program on the visible inputs and, if it is right on them, on the hidden ones."""
        reply = reply_text(action)
        if self.extend and MORE in (reply.strip("`. \n").lower(), final_line(action).strip("`. ").lower()):
            return self._grant_more_turns()
        sources = extract_programs(reply, FUNCTION, params=self.problem.params)
        if not sources:
            return self._continue("?", valid=False, fault="Your reply holds no Python program.")
        visible_grade = self._grade(sources, self._visible_cases)
        metrics = {**_run_metrics(visible_grade), "visible": visible_grade.share}
        if visible_grade.is_correct:
            hidden_grade = self._grade(sources, self._hidden_cases)
            metrics |= {**_run_metrics(hidden_grade), "hidden": hidden_grade.share}
            is_right = hidden_grade.is_correct
            return self._outcome((), float(is_right), 0.0, metrics, terminated=True, success=is_right)
        return self._continue(
            _explain(visible_grade, self._visible_cases), valid=visible_grade.run.is_compiled, metrics=metrics
        )

    def vote(self, action: Message) -> Hashable | None:
        """The program without white space; None for a reply without one."""
        sources = extract_programs(reply_text(action), FUNCTION, params="")  # a vote knows no task
        return "".join(sources[0].split()) if sources else None

    def ending(self, outcome: Outcome) -> str:
        """Say what the hidden inputs have shown; the visible ones are right when a program ends the episode."""
        if outcome.success:
            return "Your program is right on all inputs."
        return "Your program is right on the inputs that you were shown, but wrong on others."

    def oracle(self) -> Iterator[Message]:
        """The reference in its shortest form."""
        while True:
            yield assistant(self.problem.shortest)

    def random(self, rng: np.random.Generator) -> Message:
        """A parameter and a number between 1 and 9 with an operator between them."""
        names = [*self.problem.kinds]
        name = names[int(rng.integers(len(names)))]
        return assistant(f"{name}{'+-*%'[int(rng.integers(4))]}{rng.integers(1, 10)}")

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Programs that exit, forge, patch and look around, and a table of all visible inputs.
        """
        table = {repr(case.args): case.expected for case in self._visible_cases}
        return (
            *super().attacks(),
            *attacks(FUNCTION, slow=False).values(),
            f"def {FUNCTION}(*given):\n    return {table!r}.get(repr(given))",
            self.task.metadata["program"],
            f"{self.problem.source}\nraise SystemExit(0)",
            f"# {self.problem.shortest}",
            text(self.start()[0]),
            MORE,
        )

    def close(self) -> None:
        """Release the share in the sandbox."""
        self._lease.close()
        super().close()

    def _grade(self, sources: Sequence[str], cases: Sequence[Case]) -> Grade:
        tolerance = self.problem.template.tolerance
        return grade(self._lease.sandbox, sources, FUNCTION, cases, cpu_s=self.timeout, tolerance=tolerance)

    def _grant_more_turns(self) -> Outcome:
        if self._is_extended:
            return self._continue("no more", valid=False, fault="You have already got more replies.")
        self._is_extended = True
        self.max_turns += self.extend + 1  # one for this reply
        return self._continue("ok", penalty=-self.cost)

    def _continue(
        self,
        feedback: str,
        *,
        penalty: float = 0.0,
        valid: bool = True,
        metrics: Mapping[str, float] | None = None,
        fault: str = "",
    ) -> Outcome:
        """A turn that does not end the episode; `penalty`, at most 0, is the reward part `turns`.

        In full style `fault` says what was wrong with an invalid reply.
        """
        self._feedback.add(feedback)
        short = "\n".join([feedback, *self._reminder(self.turns + 1)])
        left = replies_left(self.max_turns - self.turns - 1)
        full = self.correction(fault, short=short) if fault else f"{in_sentence(feedback)} {left}"
        messages = (user(full if self.style == "full" else short),)
        return self._outcome(messages, 0.0, penalty, metrics or {}, valid=valid)

    def _outcome(
        self, messages: Messages, right: float, penalty: float, metrics: Mapping[str, float], **flags: bool
    ) -> Outcome:
        metrics = {**metrics, "extended": float(self._is_extended)}
        rewards = {"right": right, "turns": penalty}
        return Outcome(messages, right + penalty, rewards=rewards, metrics=metrics, **flags)

    def _reminder(self, turns: int) -> list[str]:
        """The line with the turns left after `turns`, none without `remind`."""
        return [f"{self.max_turns - turns} left"] if self.remind else []


def _run_metrics(grade: Grade) -> dict[str, float]:
    """The metrics of a grade other than its share of cases."""
    return {name: value for name, value in grade.metrics.items() if name != "passed"}


def _whole(program: str, params: str) -> str:
    """Return a wrong program as a whole function; it may be an expression or a body."""
    try:
        ast.parse(program, mode="eval")
    except SyntaxError:
        return extract_programs(program, FUNCTION, params=params)[0].rstrip()
    return f"def {FUNCTION}({params}):\n    return {program.strip()}"


def _explain(grade: Grade, cases: Sequence[Case]) -> str:
    """Describe the first case that a program gets wrong, or why the program could not be run."""
    if not grade.run.is_loaded or grade.first_failure is None:
        return grade.error or "no program"
    case, answers = cases[grade.first_failure], grade.run.answers
    answer = answers[grade.first_failure] if grade.first_failure < len(answers) else Answer(error=grade.run.error)
    return describe_failure(FUNCTION, case.args, case.expected, value=answer.value, error=answer.error)


def _sample_cases(problem: Problem) -> tuple[list[Case], list[Case]]:
    """The visible cases of a function and its hidden ones, whose inputs are all others."""
    rng = np.random.Generator(np.random.PCG64(digest(KEY, problem.template.name, problem.constants)))
    visible = problem.cases(rng, INPUTS)
    visible_inputs = {repr(case.args) for case in visible}
    candidates = {repr(case.args): case for _ in range(3) for case in problem.cases(rng, INPUTS)}
    return visible, [case for args, case in candidates.items() if args not in visible_inputs][-INPUTS:]


def _function_key(task: Task) -> list[Any]:
    """The function of a task, whatever its bug."""
    return [task.metadata["template"], task.metadata["constants"]]


@cache
def _load_split(level: int, split: str) -> Sequence[Task]:
    """The tasks of a split, shared by environments that differ in other arguments: mutants take time to find."""
    return drawn(split, LENGTHS[split], _task_sampler(level), key=f"{KEY}:{level}", same=_function_key)


def _task_sampler(level: int) -> Callable[[np.random.Generator], Task]:
    """A function that draws a task of a level."""

    def sample_task(rng: np.random.Generator) -> Task:
        templates = bank.level_templates(level)
        for _ in range(MAX_TRIES):
            problem = templates[int(rng.integers(len(templates)))].draw(rng)
            try:
                visible_cases, hidden_cases = _sample_cases(problem)
            except ValueError:  # constants for which no inputs tell the function from a simpler one
                continue
            mutant = (
                sample_mutant(problem, rng, visible_cases, hidden_cases) if len(hidden_cases) >= MIN_HIDDEN else None
            )
            if mutant:
                case, answer = visible_cases[mutant.case_index], mutant.answer
                wrong = describe_failure(FUNCTION, case.args, case.expected, value=answer.value, error=answer.error)
                metadata = {"template": problem.template.name, "constants": problem.constants}
                metadata |= {"program": mutant.program, "wrong": wrong}
                return Task("", (), problem.shortest, metadata)
        raise RuntimeError(f"no function of level {level} has a mutant in {MAX_TRIES} draws")

    return sample_task
