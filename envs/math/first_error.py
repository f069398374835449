"""Judge a calculation: name the first wrong step, or say that there is none."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from envs.episodes.guide import Guide
from envs.math.generated import GeneratedProblems, Problem, between, one_of
from envs.types import Message, Outcome, assistant, final_text

Rule = Literal["exact", "fapo"]
STEPS = (3, 6, 10)  # of a level
NONE = -1  # the answer where no step is wrong
WINDOW = 300  # characters at the end of a reply in which FAPO looks for a box
_BOX = re.compile(r"\\boxed\{\s*(-?\d{1,9})\s*\}")
_SIGNS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


class FirstError(GeneratedProblems):
    """Find the first wrong step of a calculation, as a judge of solutions does.

    Observation: `0: 12+7=19; 1: 19*3=56; 2: 56-4=52`, one user message; in full style after the instructions, with a
    step on each line.
    Action: the number of the first wrong step, `1`, or `-1` if all are right; boxes and sentences are read as
    `envs.grading.math.verify` says.
    Reward: by `rule`: exact, 1 for the right number, else 0. fapo, what FAPO (arXiv:2510.22543) trains its judge with:
    the last box with a whole number in the last 300 characters counts; 1 if it is right that there is no error, 1 less
    the distance over the number of steps where both numbers name a step, else -1.
    Success: the number is right.
    Episode end: after the first reply.
    Levels: 0 three steps, 1, the default, six, 2 ten. Every answer is equally likely. After a wrong step the others
    follow from its result.
    Arguments: `rule`; `level`.
    Source and licence: generated. Version history: v0.
    """

    levels: ClassVar = range(len(STEPS))

    def __init__(self, *, rule: Rule = "exact", level: int = 1, **limits: Any) -> None:
        if rule not in get_args(Rule):
            raise ValueError(f"rule {rule!r} is not one of {', '.join(get_args(Rule))}")
        super().__init__(level=level, **limits)
        self.rule = rule

    def guide(self) -> Guide:
        """Say what is asked, and in which form."""
        return self.answer_guide(
            goal=(
                "Check a calculation and find its first wrong step. You succeed if you name this step, or say rightly "
                "that there is none."
            ),
            rules="Each step is numbered, from 0. A step that goes on with a wrong number is right in itself.",
            reply=(
                "Reply with the number of the first wrong step, or with -1 if every step is right"
                + (", in a box such as \\boxed{-1}." if self.rule == "fapo" else ".")
            ),
            example="\\boxed{98765}" if self.rule == "fapo" else "98765",
        )

    def problem(self, rng: np.random.Generator) -> Problem | None:
        """Draw a calculation and where it goes wrong; return None if its numbers grow beyond four digits."""
        count = STEPS[self.level]
        error, value, steps = between(rng, NONE, count - 1), between(rng, 2, 99), []
        for number in range(count):
            sign = one_of(rng, *_SIGNS)
            other = between(rng, 2, 9) if sign == "*" else between(rng, 2, 99)
            result = _SIGNS[sign](value, other)
            if number == error:
                result += one_of(rng, -10, -2, -1, 1, 2, 10)
            if abs(result) > 9999:
                return None
            steps.append(f"{value}{sign}{other}={result}")
            value = result
        lines = [f"{number}: {step}" for number, step in enumerate(steps)]
        return Problem(
            "; ".join(lines),
            "Which is the first wrong step, -1 for none?\n" + "\n".join(lines),
            str(error),
            steps,
            statement="\n".join(lines),
        )

    def reply(self, action: Message) -> Outcome:
        """Grade the number and end the episode."""
        if self.rule == "exact":
            return super().reply(action)
        guess = boxed_step(final_text(action), STEPS[self.level])
        right = int(self.task.answer)
        reward = judge_reward(guess, right, STEPS[self.level])
        return Outcome(reward=reward, terminated=True, success=guess == right, valid=guess is not None)

    def random(self, rng: np.random.Generator) -> Message:
        """Return the number of a step, or -1."""
        return assistant(str(between(rng, NONE, STEPS[self.level] - 1)))


def boxed_step(reply: str, steps: int) -> int | None:
    """Return the last boxed whole number at the end of a reply; None without one, or if it is no step's and not -1."""
    boxes = _BOX.findall(reply[-WINDOW:])
    return int(boxes[-1]) if boxes and NONE <= int(boxes[-1]) < steps else None


def judge_reward(guess: int | None, right: int, steps: int) -> float:
    """Return FAPO's reward of a judge that names the step `guess`, where `right` is the first wrong one."""
    if guess is None or (guess == NONE) != (right == NONE):
        return -1.0
    return 1.0 - abs(guess - right) / steps
