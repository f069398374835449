"""Reach a target with given numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from envs.env import Env
from envs.grading.expression import declared_expression, evaluate
from envs.math.generated import LENGTHS, between, one_of
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text, text, user

SIZES, TOPS = range(3, 7), range(10, 101)
MOST = 999  # of a target
Made = tuple[int, str]  # a number and how it is written: brackets around all but single numbers


class Countdown(Env):
    """Write an expression that has a given value.

    Observation: `3 7 25 = 82`, the numbers and the target, one user message. With `words` a sentence that explains it.
    Action: an expression with + - * / and brackets, `3*25+7`; `3*25+7 = 82` and boxes are understood. Each number may
    be used as often as it is given; with `every`, all of them must be used.
    Reward: 1 if the value is the target, exactly, else 0. Values on the way may be fractions or negative.
    Metrics: `distance` of the value from the target, where there is one.
    Episode end: after the first reply. A reply that is no expression of the given numbers is invalid.
    Arguments: `size` numbers (3 to 6) from 1 to `top` (10 to 100), and `every`. Every target can be reached, is none of
    the numbers and is at most 999. The oracle searches all ways that stay with whole positive numbers.
    Source and licence: generated; the game is Armand Jammot's `Des chiffres et des lettres`. Version history: v0.
    """

    def __init__(
        self, *, size: int = 3, top: int = 12, every: bool = False, words: bool = False, **limits: Any
    ) -> None:
        super().__init__(**limits)
        if size not in SIZES:
            raise ValueError(f"size {size!r} is not one of {', '.join(map(str, SIZES))}")
        if top not in TOPS:
            raise ValueError(f"top {top!r} is outside {TOPS[0]}..{TOPS[-1]}")
        self.size, self.top, self.every, self.words = int(size), int(top), bool(every), bool(words)

    def tasks(self, split: str) -> Sequence[Task]:
        """Numbers with a target made of all of them."""
        key = f"math/Countdown-v0:{self.size}:{self.top}"

        def same(task: Task) -> list:
            return [*task.metadata["numbers"], task.answer]

        return drawn(split, LENGTHS[split], self._task, key=key, same=same)

    def reply(self, action: Message) -> Outcome:
        """Work the expression out and count its numbers."""
        expression, equals, claimed = declared_expression(final_text(action)).partition("=")
        made = evaluate(expression)
        given = Counter(self.task.metadata["numbers"])
        if made is None or (equals and claimed.strip() != self.task.answer) or not self._may_use(made.numbers, given):
            return Outcome(terminated=True, valid=False)
        distance = abs(made.value - int(self.task.answer))
        right = distance == 0
        return Outcome(
            reward=float(right), terminated=True, success=right, metrics={"distance": min(float(distance), 1e6)}
        )

    def oracle(self) -> Iterator[Message]:
        """The first way that an exhaustive search finds."""
        found = search(self.task.metadata["numbers"], int(self.task.answer), every=self.every)
        assert found is not None, f"{self.task.id} cannot be solved"
        yield assistant(found)

    def random(self, rng: np.random.Generator) -> Message:
        """All numbers in any order with any of + - * between them."""
        numbers = [str(number) for number in rng.permutation(self.task.metadata["numbers"])]
        signs = [one_of(rng, *"+-*") for _ in numbers]
        return assistant("".join(number + sign for number, sign in zip(numbers, [*signs[1:], ""], strict=True)))

    def attacks(self) -> Sequence[str]:
        """Among others: the target itself, numbers that are not given, a number too often, several expressions."""
        target, numbers = self.task.answer, self.task.metadata["numbers"]
        found, first = search(numbers, int(target), every=self.every), numbers[0]
        return (
            *super().attacks(),
            text(self.task.prompt[0]),
            target,
            f"{target} = {target}",
            f"{target}+0",
            f"{found}+{first}-{first}",
            f"{found}+0*{first}",
            f"{found} = {int(target) + 1}",
            f"{found}\n{found}+1",
            f"\\boxed{{{found}}} \\boxed{{{first}}}",
            f"The answer is not {found}",
            f"__import__('os')._exit(0) or {found}",
            f"int('{target}')",
            "9**9**9",
            "(" * 10_000 + target + ")" * 10_000,
            "1/0",
            f"{first}/(1-1)",
        )

    def _may_use(self, used: Sequence[int], given: Counter[int]) -> bool:
        counts = Counter(used)
        return counts == given if self.every else counts <= given

    def _task(self, rng: np.random.Generator) -> Task:
        while True:
            numbers = sorted(between(rng, 1, self.top) for _ in range(self.size))
            target = _target(rng, numbers)
            if target not in numbers and 0 < target <= MOST:
                break
        listed = " ".join(map(str, numbers))
        shown = f"{listed} = {target}"
        if self.words:
            often = "exactly once" if self.every else "at most once"
            given = ", ".join(map(str, numbers))
            shown = f"Use each of {given} {often}, with + - * / and brackets, to make {target}. Answer: the expression."
        return Task("", (user(shown),), str(target), {"numbers": numbers})


def search(numbers: Sequence[int], target: int, *, every: bool = False) -> str | None:
    """An expression of the numbers with the value `target`, or None if whole positive numbers on the way lead to none.

    With `every`, all numbers are used; else each at most once.
    """
    seen: set[tuple[int, ...]] = set()

    def found(made: list[Made]) -> str | None:
        key = tuple(sorted(value for value, _ in made))
        if key in seen:
            return None
        seen.add(key)
        for i, j in combinations(range(len(made)), 2):
            rest = [one for k, one in enumerate(made) if k not in (i, j)]
            for value, written in _pairs(made[i], made[j]):
                if value == target and (not rest or not every):
                    return written
                if rest and (way := found([*rest, (value, f"({written})")])):
                    return way
        return None

    if not every and target in numbers:
        return str(target)
    return found([(number, str(number)) for number in numbers])


def _pairs(one: Made, other: Made) -> Iterator[Made]:
    """What two numbers make without leaving the whole positive numbers."""
    (a, left), (b, right) = (one, other) if one[0] >= other[0] else (other, one)
    yield a + b, f"{left}+{right}"
    yield a * b, f"{left}*{right}"
    if a > b:
        yield a - b, f"{left}-{right}"
    if a % b == 0:
        yield a // b, f"{left}/{right}"


def _target(rng: np.random.Generator, numbers: Sequence[int]) -> int:
    """The value of a random way through all numbers."""
    left = [(number, "") for number in rng.permutation(numbers).tolist()]
    while len(left) > 1:
        pair = [left.pop(int(rng.integers(len(left)))) for _ in range(2)]
        left.append(one_of(rng, *_pairs(*pair)))
    return left[0][0]
