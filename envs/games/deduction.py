"""Base class of deduction games: find a secret of a known set from the answers to guesses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import log2
from typing import Any

import numpy as np

from envs.games.candidates import Candidates
from envs.games.game import Game
from envs.procedural import enumerated
from envs.types import Message, Outcome, Task, assistant, final_text


class Deduction(Game):
    """Find the secret by guessing; each guess is answered truthfully, and the right guess wins.

    A subclass defines `candidates`, `parse_guess`, `full_answer`, `hint`, `guide` and `rules`. Tasks, replies, the
    oracle and the state are defined here. The metrics of every turn are `left`, the number of secrets that fit all
    answers, and `bits`, the information that the turn gained.

    Args:
        opened: Whether an episode begins with the answer to a first guess, which is never the secret. A task is then a
            pair of secrets (opening guess, secret), otherwise a single secret.
        **limits: Arguments of `Game`.
    """

    def __init__(self, *, opened: bool = True, **limits: Any) -> None:
        super().__init__(**limits)
        self.opened = bool(opened)

    @abstractmethod
    def candidates(self) -> Candidates:
        """All secrets and the answers to guesses.

        Equal arguments must give the same object, because it caches plans.
        """

    @abstractmethod
    def parse_guess(self, reply: str) -> str | None:
        """Parse the guess of a reply; None if the reply makes none, or several."""

    @abstractmethod
    def full_answer(self, guess: str, answer: str) -> str:
        """Say in full style what a guess was answered."""

    @property
    @abstractmethod
    def hint(self) -> str:
        """Form of a guess in a few characters, such as `5 letters`. It is part of the key that shuffles the tasks."""

    def tasks(self, split: str) -> Sequence[Task]:
        """All secrets of the split, with `opened` each with every other secret as the opening guess."""
        secrets = len(self.candidates().secrets)
        total = secrets * (secrets - 1) if self.opened else secrets
        key = f"{type(self).__name__}:{secrets}:{self.hint}:{self.opened}"
        return enumerated(split, total, self._task, key=key)

    def opening(self) -> str:
        """Return the opening guess with its answer, or `hint` where there is no opening guess."""
        candidates = self.candidates()
        self.remaining, self.facts = candidates.all_secrets, set[str]()
        guess = self.task.metadata["opening"]
        if guess is None:
            return "You have made no guess yet." if self.style == "full" else self.hint
        answer = candidates.score(guess, self.task.answer)
        self.remaining = candidates.narrow(self.remaining, guess, answer)
        self.facts.add(f"{guess}:{answer}")
        return self.full_answer(guess, answer) if self.style == "full" else f"{guess} {answer}"

    def state(self) -> str:
        """Return the guesses with their answers in alphabetical order, and the number of turns left."""
        return f"{' '.join(sorted(self.facts))} {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Answer the guess. A reply without a guess is invalid, costs a turn and is answered with `hint`."""
        guess = self.parse_guess(final_text(action))
        before = self.remaining.bit_count()
        if guess is None:
            fault = f"Your reply does not make exactly one guess of {self.hint}."
            return self.outcome(self.correction(fault, short=f"{self.hint}?"), valid=False, left=before, bits=0.0)
        candidates, secret = self.candidates(), self.task.answer
        answer = candidates.score(guess, secret)
        self.remaining = candidates.narrow(self.remaining, guess, answer)
        self.facts.add(f"{guess}:{answer}")
        left = self.remaining.bit_count()
        observation = self.full_answer(guess, answer) if self.style == "full" else answer
        if guess == secret:
            observation = f"{observation}\nYour guess {guess} is right."
        return self.outcome(observation, is_won=guess == secret, left=left, bits=log2(before / left))

    def oracle(self) -> Iterator[Message]:
        """Yield the best guess for the remaining secrets and turns; see `Candidates.best_guess`."""
        while True:
            yield assistant(self.candidates().best_guess(self.remaining, self.max_turns - self.turns))

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of all secrets as the guess, each equally likely."""
        secrets = self.candidates().secrets
        return assistant(secrets[int(rng.integers(len(secrets)))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are several secrets in one reply, one of them right, and the answer of a win.
        """
        right = self.task.answer
        wrong = next(secret for secret in self.candidates().secrets if secret != right)
        full_score = self.candidates().score(right, right)
        all_secrets = " ".join(self.candidates().secrets)
        return (
            *super().attacks(),
            all_secrets,
            f"{wrong} {right}",
            f"{right} or {wrong}",
            f"{right}{wrong}",
            right[:-1],
            full_score,
        )

    def _task(self, number: int) -> Task:
        secrets = self.candidates().secrets
        if not self.opened:
            return Task("", answer=secrets[number], metadata={"opening": None})
        secret_index, opening_index = divmod(number, len(secrets) - 1)
        opening_index += opening_index >= secret_index  # the secret itself is never the opening guess
        return Task("", answer=secrets[secret_index], metadata={"opening": secrets[opening_index]})
