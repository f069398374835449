"""Repair a wrong program over several turns, shown one input at a time that it gets wrong."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from envs.code.grading.attacks import attacks
from envs.code.grading.extraction import programs
from envs.code.grading.feedback import complaint
from envs.code.grading.split_grading import Answer, Case, Grade, grade
from envs.code.synthesis import bank
from envs.code.synthesis.bank.template import FUNCTION, Problem
from envs.code.synthesis.mutants import spoiled
from envs.env import Env
from envs.procedural import digest, drawn
from envs.shared_sandbox import Lease, seconds
from envs.tools.snippets import after_thought
from envs.types import Message, Messages, Outcome, Task, assistant, text, user

KEY = "code/Repair-v0"
LENGTHS = {"train": 5_000, "val": 50, "test": 100}
INPUTS = 12  # visible ones, and hidden ones at most
LEAST = 4  # hidden ones
MORE = "more"
PATIENCE = 1000


class Repair(Env):
    """Make a wrong function right.

    Observation: what the function should return, the wrong one, and the first visible input that it gets wrong:
    `x plus 7`, `x-7`, `f(0) is -7, not 7`; then that of each new program, or why it failed, `f(0) fails, NameError:
    name 'y' is not defined; should be 7`; `?` after a reply that is no program. With `remind`, `2 left` after it, the
    turns left. With `describe=False` the first line is missing, so that the inputs must tell.
    Action: the whole program, in ```python fences or bare: what the function returns, as an expression (`x+7`), its
    body, or all of it. With `extend`, also `more`, which asks for that many more turns; it can be had once.
    Reward: a program that gets all visible inputs right is handed in by that: 1 if it is right on all hidden ones too,
    else 0. `more` costs `cost` when it is granted. Named parts: `right`, and `turns`, which is -`cost` or 0.
    Metrics: `visible`, the share of the visible inputs that a program gets right; `hidden`, that of the hidden ones at
    the end; `timeout` and `raised` as in `code/Functions-v0`; `extended`, whether more turns were had.
    Episode end: terminated by a program that gets all visible inputs right; truncated after `max_turns`, by default 3,
    and `extend` more if they were asked for, which is itself no turn of them.
    Arguments: `level`, the functions of `code/Functions-v0`: 0 and 1 (expressions), 2 (loops), 3 and 4 (algorithms),
    spoiled by a bug of one of twelve families; `describe`, `remind`, `extend`, `cost`; `timeout`, CPU seconds for the
    inputs of a kind; `sandbox`, `sandbox_options` as for `sandboxes.open`.
    Splits: a function, whatever its bug, stands in one split only. Both kinds of inputs belong to the task;
    no hidden one is visible.
    State: what was told so far, whether more turns were had, and the turns left.
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
        self.extend, self.cost, self.timeout = extend, float(cost), seconds("timeout", timeout)
        self._tries = self.max_turns
        self._lease = Lease(sandbox, sandbox_options)

    def tasks(self, split: str) -> Sequence[Task]:
        """Members of the level's templates with a bug each; equal for any other argument."""
        return _split(self.level, split)

    def start(self) -> Messages:
        """Show the wrong program and an input that tells."""
        known = self.task.metadata
        self.problem = bank.named(known["template"]).member(known["constants"])
        self._visible, self._hidden = _cases(self.problem)
        self.max_turns = self._tries
        self._extended = False
        shown = [self.problem.line] if self.describe else []
        self._told = {known["wrong"]}
        return (user("\n".join([*shown, known["program"].rstrip(), known["wrong"], *self._reminder(0)])),)

    def state(self) -> str:
        """What was told, in whatever order, and the turns left."""
        told = f"{digest(sorted(self._told)):016x}"
        return f"{self.task.id} told {told} extended {int(self._extended)} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Try a program on the visible inputs and, if it is right on them, on the hidden ones."""
        said = after_thought(action)
        if self.extend and said.strip("`. \n").lower() == MORE:
            return self._asked_for_more()
        sources = programs(said, FUNCTION, params=self.problem.params)
        if not sources:
            return self._goes_on("?", valid=False)
        found = self._graded(sources, self._visible)
        metrics = {**_metrics(found), "visible": found.share}
        if found.right:
            last = self._graded(sources, self._hidden)
            metrics |= {**_metrics(last), "hidden": last.share}
            return self._outcome((), float(last.right), 0.0, metrics, terminated=True, success=last.right)
        return self._goes_on(_why(found, self._visible), valid=found.answers.readable, metrics=metrics)

    def vote(self, action: Message) -> Hashable | None:
        """The program without blanks."""
        sources = programs(after_thought(action), FUNCTION, params=self.problem.params)
        return "".join(sources[0].split()) if sources else None

    def oracle(self) -> Iterator[Message]:
        """The reference, as short as it can be said."""
        while True:
            yield assistant(self.problem.short)

    def random(self, rng: np.random.Generator) -> Message:
        """A parameter and a number between 1 and 9 with an operator between them."""
        names = [*self.problem.kinds]
        name = names[int(rng.integers(len(names)))]
        return assistant(f"{name}{'+-*%'[int(rng.integers(4))]}{rng.integers(1, 10)}")

    def attacks(self) -> Sequence[str]:
        """Programs that exit, forge, patch and look around, and one that knows all visible inputs by heart."""
        known = {repr(case.given): case.wanted for case in self._visible}
        return (
            *super().attacks(),
            *attacks(FUNCTION, slow=False).values(),
            f"def {FUNCTION}(*given):\n    return {known!r}.get(repr(given))",
            self.task.metadata["program"],
            f"{self.problem.source}\nraise SystemExit(0)",
            f"# {self.problem.short}",
            text(self.start()[0]),
            MORE,
        )

    def close(self) -> None:
        """Give the sandbox back."""
        self._lease.close()
        super().close()

    def _graded(self, sources: Sequence[str], cases: Sequence[Case]) -> Grade:
        tolerance = self.problem.template.tolerance
        return grade(self._lease.sandbox, sources, FUNCTION, cases, cpu_s=self.timeout, tolerance=tolerance)

    def _asked_for_more(self) -> Outcome:
        if self._extended:
            return self._goes_on("no more", valid=False)
        self._extended = True
        self.max_turns += self.extend + 1  # one for this reply
        return self._goes_on("ok", paid=-self.cost)

    def _goes_on(
        self, said: str, *, paid: float = 0.0, valid: bool = True, metrics: Mapping[str, float] | None = None
    ) -> Outcome:
        """A turn that does not end the episode."""
        self._told.add(said)
        messages = (user("\n".join([said, *self._reminder(self.turns + 1)])),)
        return self._outcome(messages, 0.0, paid, metrics or {}, valid=valid)

    def _outcome(
        self, messages: Messages, right: float, cost: float, metrics: Mapping[str, float], **words: bool
    ) -> Outcome:
        told = {**metrics, "extended": float(self._extended)}
        return Outcome(messages, right + cost, rewards={"right": right, "turns": cost}, metrics=told, **words)

    def _reminder(self, turns: int) -> list[str]:
        """The turns left after so many, if they are to be told."""
        return [f"{self.max_turns - turns} left"] if self.remind else []


def _metrics(found: Grade) -> dict[str, float]:
    """Those of the grade that do not count inputs."""
    return {name: value for name, value in found.metrics.items() if name != "passed"}


def _why(found: Grade, cases: Sequence[Case]) -> str:
    """The first case that a program gets wrong, or why it could not be tried."""
    if not found.answers.loaded or found.failed is None:
        return found.fault or "no program"
    case, given = cases[found.failed], found.answers.answers
    answer = given[found.failed] if found.failed < len(given) else Answer(raised=found.answers.fault)
    return complaint(FUNCTION, case.given, case.wanted, value=answer.value, raised=answer.raised)


def _cases(problem: Problem) -> tuple[list[Case], list[Case]]:
    """The visible inputs of a function, and hidden ones, all of them others."""
    luck = digest(KEY, problem.template.name, problem.constants)
    rng = np.random.Generator(np.random.PCG64(luck))
    visible = problem.cases(rng, INPUTS)
    known = {repr(case.given) for case in visible}
    drawn = {repr(case.given): case for _ in range(3) for case in problem.cases(rng, INPUTS)}
    return visible, [case for given, case in drawn.items() if given not in known][-INPUTS:]


def _function(task: Task) -> list[Any]:
    """What is asked for, whatever is wrong."""
    return [task.metadata["template"], task.metadata["constants"]]


@cache
def _split(level: int, split: str) -> Sequence[Task]:
    """The same for environments that differ in other arguments: spoiling takes time."""
    return drawn(split, LENGTHS[split], _drawn(level), key=f"{KEY}:{level}", same=_function)


def _drawn(level: int) -> Any:
    """What draws a task of a level."""

    def draw(rng: np.random.Generator) -> Task:
        templates = bank.at_level(level)
        for _ in range(PATIENCE):
            problem = templates[int(rng.integers(len(templates)))].draw(rng)
            try:
                visible, hidden = _cases(problem)
            except ValueError:  # constants with which all values are alike
                continue
            found = spoiled(problem, rng, visible, hidden) if len(hidden) >= LEAST else None
            if found:
                case, answer = visible[found.place], found.answer
                wrong = complaint(FUNCTION, case.given, case.wanted, value=answer.value, raised=answer.raised)
                about = {"template": problem.template.name, "constants": problem.constants}
                return Task("", (), problem.short, {**about, "program": found.program, "wrong": wrong})
        raise RuntimeError(f"no function of level {level} could be spoiled in {PATIENCE} draws")

    return draw
