"""Countdown: write an expression of given numbers that has a target value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.grading.declaration import find_declaration, single_line
from envs.grading.expression import evaluate
from envs.grading.lines import after_words, only_line
from envs.math.generated import LENGTHS, between, one_of
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text, text, user

SIZES, TOPS = range(2, 7), range(10, 101)
MAX_TARGET = 999  # largest target
_MARKUP = re.compile(r"\\(?:left|right)\b|[$`]|\\[()\[\],;! ]")
_SURROUNDINGS = "_. !\n"
Term = tuple[int, str]  # a number and its expression, in brackets unless it is a single number


class Countdown(Env):
    """Write an expression that has a given value.

    Observation: `3 7 25 = 82`, the numbers and the target, one user message. In full style the
    instructions and a sentence.
    Action: an expression with + - * / and brackets, `3*25+7`; `3*25+7 = 82`, `82 = 3*25+7` and boxes are accepted. Each
    number may be used as often as it is given; with `every`, all of them must be used.
    Reward: 1 if the value is exactly the target, else 0. Intermediate values may be fractions or negative.
    Metrics: `distance` of the value from the target, if the reply has a value.
    Episode end: after the first reply. A reply that is no expression of the given numbers is invalid.
    Arguments: `size` numbers (2 to 6) from 1 to `top` (10 to 100), and `every`. Two numbers only ask which operation
    reaches the target. Every target can be reached, is none of the numbers and is at most 999. The oracle searches all
    expressions whose intermediate values are whole positive numbers.
    Source and licence: generated; the game is Armand Jammot's `Des chiffres et des lettres`. Version history: v0.
    """

    def __init__(self, *, size: int = 3, top: int = 12, every: bool = False, **limits: Any) -> None:
        super().__init__(**limits)
        if size not in SIZES:
            raise ValueError(f"size {size!r} is not one of {', '.join(map(str, SIZES))}")
        if top not in TOPS:
            raise ValueError(f"top {top!r} is outside {TOPS[0]}..{TOPS[-1]}")
        self.size, self.top, self.every = int(size), int(top), bool(every)

    def guide(self) -> Guide:
        """Say what is asked, and in which form. The example uses the task's numbers and does not reach the target."""
        numbers, target = self.task.metadata["numbers"], int(self.task.answer)
        often = "exactly once" if self.every else "at most once, and need not use all of them"
        examples = (sign.join(map(str, numbers)) for sign in ("+", "*", "-"))
        return Guide(
            goal=(
                "Write an arithmetic expression of the given numbers whose value is the target. You succeed if the "
                "value is exactly the target."
            ),
            rules=(
                f"You may use each given number {often}; a number that is given twice may be used twice. No other "
                "number may occur. The operators are + - * / and brackets; values in between may be fractions or "
                "negative."
            ),
            reply="Reply with one expression.",
            noun="expression",
            example=next(one for one in examples if (result := evaluate(one)) and result.value != target),
            invalid="A reply that is no expression of the given numbers counts as wrong.",
            heading="The task:",
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random numbers, each with a target that an expression of all of them has."""
        key = f"math/Countdown-v0:{self.size}:{self.top}"

        def same(task: Task) -> list:
            return [*task.metadata["numbers"], task.answer]

        return drawn(split, LENGTHS[split], self._task, key=key, same=same)

    def reply(self, action: Message) -> Outcome:
        """Evaluate the expression, check its numbers, and end the episode."""
        expression, equals, right_side = declared_expression(final_text(action)).partition("=")
        if expression.strip() == self.task.answer and evaluate(right_side) is not None:  # 82 = 3*25+7
            expression, right_side = right_side, expression
        result = evaluate(expression)
        available = Counter(self.task.metadata["numbers"])
        if (
            result is None
            or (equals and right_side.strip() != self.task.answer)
            or not self._may_use(result.numbers, available)
        ):
            return Outcome(terminated=True, valid=False)
        distance = abs(result.value - int(self.task.answer))
        right = distance == 0
        return Outcome(
            reward=float(right), terminated=True, success=right, metrics={"distance": min(float(distance), 1e6)}
        )

    def oracle(self) -> Iterator[Message]:
        """Yield the first expression that an exhaustive search finds."""
        solution = search(self.task.metadata["numbers"], int(self.task.answer), every=self.every)
        assert solution is not None, f"{self.task.id} cannot be solved"
        yield assistant(solution)

    def random(self, rng: np.random.Generator) -> Message:
        """Return all numbers in random order with random signs + - * between them."""
        numbers = [str(number) for number in rng.permutation(self.task.metadata["numbers"])]
        signs = [one_of(rng, *"+-*") for _ in numbers]
        return assistant("".join(number + sign for number, sign in zip(numbers, [*signs[1:], ""], strict=True)))

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are the target itself, numbers not given or repeated, and several expressions.
        """
        target, numbers = self.task.answer, self.task.metadata["numbers"]
        solution, first = search(numbers, int(target), every=self.every), numbers[0]
        return (
            *super().attacks(),
            text(self.task.prompt[0]),
            target,
            f"{target} = {target}",
            f"{target}+0",
            f"{solution}+{first}-{first}",
            f"{solution}+0*{first}",
            f"{solution} = {int(target) + 1}",
            f"{solution}\n{solution}+1",
            f"\\boxed{{{solution}}} \\boxed{{{first}}}",
            f"The answer is not {solution}",
            f"__import__('os')._exit(0) or {solution}",
            f"int('{target}')",
            "9**9**9",
            "(" * 10_000 + target + ")" * 10_000,
            "1/0",
            f"{first}/(1-1)",
        )

    def _may_use(self, numbers: Sequence[int], available: Counter[int]) -> bool:
        counts = Counter(numbers)
        return counts == available if self.every else counts <= available

    def _task(self, rng: np.random.Generator) -> Task:
        while True:
            numbers = sorted(between(rng, 1, self.top) for _ in range(self.size))
            target = _target(rng, numbers)
            if target not in numbers and 0 < target <= MAX_TARGET:
                break
        number_list = " ".join(map(str, numbers))
        prompt = f"{number_list} = {target}"
        if self.style != "short":
            often = "exactly once" if self.every else "at most once"
            comma_list = ", ".join(map(str, numbers))
            task = f"Use each of {comma_list} {often}, with + - * / and brackets, to make {target}."
            prompt = f"{task} Answer: the expression." if self.style == "v1" else f"{task}"
        return Task("", (user(prompt),), str(target), {"numbers": numbers})


def declared_expression(reply: str) -> str:
    """Return the expression that a reply declares as its answer, else the reply itself if it is one line.

    "" for neither. It is declared by a box, a tag, `####` or a phrase such as "the answer is", or stands alone on the
    last line, where words may stand before it; it is not yet parsed.
    """
    kind, answer = find_declaration(reply)
    text = answer if kind in ("marked", "phrase") else single_line(reply)
    if kind not in ("marked", "phrase") and evaluate(text.partition("=")[0]) is None:
        text = after_words(only_line(reply)) or text
    text = _MARKUP.sub("", text).strip(_SURROUNDINGS)
    if text.startswith("*") or text.endswith("**"):  # emphasis, not an incomplete expression
        text = text.strip("*").strip(_SURROUNDINGS)
    return text


def search(numbers: Sequence[int], target: int, *, every: bool = False) -> str | None:
    """Return an expression of the numbers with the value `target`; None if none has whole positive intermediate values.

    With `every`, the expression uses all numbers, else each at most once.
    """
    visited: set[tuple[int, ...]] = set()

    def search_terms(terms: list[Term]) -> str | None:
        key = tuple(sorted(value for value, _ in terms))
        if key in visited:
            return None
        visited.add(key)
        for i, j in combinations(range(len(terms)), 2):
            rest = [one for k, one in enumerate(terms) if k not in (i, j)]
            for value, expression in _pairs(terms[i], terms[j]):
                if value == target and (not rest or not every):
                    return expression
                if rest and (solution := search_terms([*rest, (value, f"({expression})")])):
                    return solution
        return None

    if not every and target in numbers:
        return str(target)
    return search_terms([(number, str(number)) for number in numbers])


def _pairs(one: Term, other: Term) -> Iterator[Term]:
    """Yield the terms that two terms make with + - * /, as far as they are whole positive numbers."""
    (a, left), (b, right) = (one, other) if one[0] >= other[0] else (other, one)
    yield a + b, f"{left}+{right}"
    yield a * b, f"{left}*{right}"
    if a > b:
        yield a - b, f"{left}-{right}"
    if a % b == 0:
        yield a // b, f"{left}/{right}"


def _target(rng: np.random.Generator, numbers: Sequence[int]) -> int:
    """Return the value of a random expression that uses all numbers."""
    left = [(number, "") for number in rng.permutation(numbers).tolist()]
    while len(left) > 1:
        pair = [left.pop(int(rng.integers(len(left)))) for _ in range(2)]
        left.append(one_of(rng, *_pairs(*pair)))
    return left[0][0]
