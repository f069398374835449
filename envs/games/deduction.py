"""Games of deduction: a secret from a known set, a truthful answer to every guess."""

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
    """Find the secret by guessing.

    A subclass defines `candidates`, `read` and `hint`. With `opened`, every task begins with the answer to a first
    guess, another secret than the right one, so that a task is a pair of secrets; without it, a task is a secret.
    """

    def __init__(self, *, opened: bool = True, **limits: Any) -> None:
        super().__init__(**limits)
        self.opened = bool(opened)

    @abstractmethod
    def candidates(self) -> Candidates:
        """The secrets there are and how a guess is answered; one object for equal arguments."""

    @abstractmethod
    def read(self, reply: str) -> str | None:
        """The guess that the reply makes, or None."""

    @property
    @abstractmethod
    def hint(self) -> str:
        """What a guess looks like, in a few characters."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Every secret, with every other one as the opening guess if there is one."""
        secrets = len(self.candidates().secrets)
        total = secrets * (secrets - 1) if self.opened else secrets
        key = f"{type(self).__name__}:{secrets}:{self.hint}:{self.opened}"
        return enumerated(split, total, self._task, key=key)

    def opening(self) -> str:
        """The answer to the opening guess, or the hint."""
        candidates = self.candidates()
        self.left, self.facts = candidates.everything, set[str]()
        guess = self.task.metadata["opening"]
        if guess is None:
            return self.hint
        answer = candidates.score(guess, self.task.answer)
        self.left = candidates.after(self.left, guess, answer)
        self.facts.add(f"{guess}:{answer}")
        return f"{guess} {answer}"

    def state(self) -> str:
        """The guesses with their answers, in alphabetical order, and the turns left."""
        return f"{' '.join(sorted(self.facts))} {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Answer a guess."""
        guess = self.read(final_text(action))
        before = self.left.bit_count()
        if guess is None:
            return self.outcome(f"{self.hint}?", valid=False, left=before, bits=0.0)
        candidates, secret = self.candidates(), self.task.answer
        answer = candidates.score(guess, secret)
        self.left = candidates.after(self.left, guess, answer)
        self.facts.add(f"{guess}:{answer}")
        left = self.left.bit_count()
        return self.outcome(answer, won=guess == secret, left=left, bits=log2(before / left))

    def oracle(self) -> Iterator[Message]:
        """A guess that fits all answers so far and splits what is left; see `Candidates.guess`."""
        while True:
            yield assistant(self.candidates().guess(self.left, self.max_turns - self.turns))

    def random(self, rng: np.random.Generator) -> Message:
        """Any of the secrets."""
        secrets = self.candidates().secrets
        return assistant(secrets[int(rng.integers(len(secrets)))])

    def attacks(self) -> Sequence[str]:
        """Among others: many secrets in one reply, the right one among them, and what an answer would look like."""
        right = self.task.answer
        wrong = next(secret for secret in self.candidates().secrets if secret != right)
        won = self.candidates().score(right, right)
        every = " ".join(self.candidates().secrets)
        return (
            *super().attacks(),
            every,
            f"{wrong} {right}",
            f"{right} or {wrong}",
            f"{right}{wrong}",
            right[:-1],
            won,
        )

    def _task(self, number: int) -> Task:
        secrets = self.candidates().secrets
        if not self.opened:
            return Task("", answer=secrets[number], metadata={"opening": None})
        place, other = divmod(number, len(secrets) - 1)
        return Task("", answer=secrets[place], metadata={"opening": secrets[other + (other >= place)]})
