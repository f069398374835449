"""Guess a number: each guess is answered with the interval that remains; bisection always wins in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from typing import Any

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.grading.integer import declared_integer
from envs.procedural import enumerated
from envs.types import Message, Messages, Outcome, Task, assistant, final_text, text, user


class GuessNumber(Env):
    """Guess a secret number of a known interval.

    Observation: `12..18` first, then the interval that remains, `16..18`; after an invalid reply the same with `!`.
    In full style the instructions first, and sentences. With `remind=False` only `higher` or `lower` (than the guess),
    so that the policy must remember the interval.
    Action: a number, `15`; longer replies are read as `envs.grading.integer.declared_integer` says. A reply that
    declares no number of the interval is invalid; it still costs a turn.
    Reward: 1 for the secret, else 0; its only named part is `win`.
    Metrics: `width`, how many numbers remain after the turn; `bits`, the information the turn gained.
    Episode end: terminated by the right guess, truncated after as many turns as bisection may need, plus `spare`.
    Arguments: `size`, how many numbers the interval has; it lies anywhere in `bottom`..`top`; `spare`; `remind`.
    Source and licence: generated. Version history: v0.
    """

    def __init__(
        self,
        *,
        size: int = 7,
        bottom: int = 10,
        top: int = 99,
        spare: int = 1,
        remind: bool = True,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        if not 0 <= bottom <= top:
            raise ValueError(f"bottom {bottom!r} is outside 0..{top}, from no negative number to top")
        if not isinstance(size, int) or not 2 <= size <= top - bottom + 1:
            raise ValueError(f"size {size!r} is outside 2..{top - bottom + 1}, the numbers in {bottom}..{top}")
        if spare < 0:
            raise ValueError(f"spare must not be negative, but is {spare}")
        super().__init__(max_turns=size.bit_length() + spare if max_turns is None else max_turns, **limits)
        self.size, self.bottom, self.top = size, bottom, top
        self.spare, self.remind = spare, remind

    def tasks(self, split: str) -> Sequence[Task]:
        """Return every interval with every secret in it."""
        total = (self.top - self.bottom + 2 - self.size) * self.size
        return enumerated(split, total, self._task, key=f"games/GuessNumber-v0:{self.size}:{self.bottom}:{self.top}")

    def start(self) -> Messages:
        """Return the interval as the prompt."""
        self.low, self.high = self.task.metadata["low"], self.task.metadata["high"]
        self.secret = int(self.task.answer)
        return (user(_sentence(self.low, self.high)),) if self.style == "full" else self.task.prompt

    def guide(self) -> Guide:
        """Say what has to be guessed, and what is told after a guess."""
        return Guide(
            goal="Guess a secret whole number. You succeed when you name it.",
            rules=(
                "After each guess you are told whether the number is higher or lower than your guess"
                f"{', and which numbers are still possible' * self.remind}."
            ),
            reply="Reply with one number of the interval that you are given, in digits. Make one guess per reply.",
            noun="guess",
            example=str(self.task.metadata["low"]),
            ending="The episode ends when you name the number.",
            invalid="A reply that states no number of the first interval, or several, uses up a reply.",
            heading="The interval:",
        )

    def state(self) -> str:
        """Return the interval that remains and the number of turns left."""
        return f"{self.low}..{self.high} {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Compare the guess with the secret and narrow the interval."""
        guess = declared_integer(final_text(action))
        if guess is None or not self.task.metadata["low"] <= guess <= self.task.metadata["high"]:
            prompt = f"{self.low}..{self.high}" if self.remind else text(self.task.prompt[0])
            fault = "Your reply does not state exactly one number of the first interval."
            observation = _sentence(self.low, self.high) if self.remind else ""
            return self._outcome(self.correction(fault, observation, short=f"{prompt}!"), valid=False)
        before = self.high - self.low + 1
        if guess == self.secret:
            self.low = self.high = guess
            return self._outcome(None, before=before)
        if guess < self.secret:
            self.low = max(self.low, guess + 1)
        else:
            self.high = min(self.high, guess - 1)
        answer = "higher" if guess < self.secret else "lower"
        interval = f"{self.low}..{self.high}" if self.remind else answer
        if self.style == "full":
            interval = f"The number is {answer} than {guess}."
            interval += f" {_sentence(self.low, self.high)}" if self.remind else ""
        return self._outcome(interval, before=before)

    def oracle(self) -> Iterator[Message]:
        """Yield the middle of the interval that remains (bisection)."""
        while True:
            yield assistant(str((self.low + self.high) // 2))

    def random(self, rng: np.random.Generator) -> Message:
        """Return a number of the first interval, which may be ruled out already."""
        return assistant(str(rng.integers(self.task.metadata["low"], self.task.metadata["high"] + 1)))

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them all numbers of the interval in one reply."""
        all_numbers = " ".join(str(number) for number in range(self.low, self.high + 1))
        return (
            *super().attacks(),
            all_numbers,
            f"#### {all_numbers}",
            "higher",
            "lower",
            f"{self.secret}.0",
            "9" * 10_000,
        )

    def ending(self, outcome: Outcome) -> str:
        """Say that the guess is right: nothing else ends the game."""
        return "Your guess is right."

    def _outcome(self, answer: str | None, *, before: int | None = None, valid: bool = True) -> Outcome:
        """Return the outcome of a turn.

        `answer` is None for a win; `before` is the width before the turn, None if it has not changed.
        """
        width = self.high - self.low + 1
        is_right = answer is None
        return Outcome(
            messages=() if answer is None else (user(answer),),
            reward=float(is_right),
            terminated=is_right,
            success=is_right,
            valid=valid,
            rewards={"win": float(is_right)},
            metrics={"width": width, "bits": log2((before or width) / width)},
        )

    def _task(self, number: int) -> Task:
        low, offset = divmod(number, self.size)
        low += self.bottom
        bounds = {"low": low, "high": low + self.size - 1}
        return Task("", (user(f"{low}..{bounds['high']}"),), str(low + offset), bounds)


def _sentence(low: int, high: int) -> str:
    """Name the interval in a sentence."""
    return f"It is one of the whole numbers from {low} to {high}." if low < high else f"It is {low}."
