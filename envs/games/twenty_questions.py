"""Find the thing that is meant by asking what is true of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log2
from typing import Any

import numpy as np

from envs.games.game import Game, checked
from envs.games.ontology import ATTRIBUTES, things
from envs.grading.choice import find_choice
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

KEY = "games/TwentyQuestions-v0"
LENGTHS = {"train": 5_000, "val": 100, "test": 200}
LEAST_THINGS, LEAST_SIZE = 16, 4


class TwentyQuestions(Game):
    """Find which of a few things is meant by asking about attributes, then name it.

    Observation: the things it may be, `dog hen oak bee axe owl pea cod`; then the answer and the things left,
    `yes dog hen bee owl`. With `remind=False` only `yes` or `no`. After an invalid reply `!` before what is left.
    Action: an attribute, `wings`, which asks whether the thing has it, or a thing, which is the one guess there is; of
    a longer reply the one attribute or thing that its last line names. A reply without one, or a thing that the
    opening did not name, is invalid; it costs a turn all the same.
    Reward: 1 for the right guess, else 0; its only named part is `win`.
    Metrics: `left`, the things still possible after the turn; `bits`, the information the turn gained.
    Episode end: terminated by a guess, right or wrong; truncated after as many turns as perfect halving and a guess
    need, plus `spare`.
    Arguments: `size` things it may be, out of the first `things` of the ontology in `envs.games.ontology`, which also
    holds the attributes and what they mean; `spare`; `remind`; `explain`: the rules and attributes open the episode.
    Splits: things with the one that is meant. The greedy bisection solver needs no more turns than there are.
    State: the things still possible and the turns left.
    Source and licence: own ontology. Version history: v0.
    """

    leaks = "the thing is one of those that the opening names"

    def __init__(
        self,
        *,
        things: int = 16,
        size: int = 8,
        spare: int = 1,
        remind: bool = True,
        max_turns: int | None = None,
        **own: Any,
    ) -> None:
        self.things = checked("things", things, range(LEAST_THINGS, len(_names()) + 1))
        why = f"at most half of {things} things"
        self.size = checked("size", size, range(LEAST_SIZE, self.things // 2 + 1), why=why)
        self.spare = checked("spare", spare, range(100))
        self.questions = (self.size - 1).bit_length() + self.spare
        super().__init__(max_turns=self.questions + 1 if max_turns is None else max_turns, **own)
        self.remind = bool(remind)
        self.meanings = {word: word for word in (*ATTRIBUTES, *_names()[: self.things])}

    @property
    def rules(self) -> str:
        """The rules and the attributes."""
        attributes = ", ".join(f"{name} ({meaning})" for name, meaning in ATTRIBUTES.items())
        return (
            "I mean one of the things I name. Each turn reply with one attribute, and I say whether the thing has it, "
            f"or with the thing itself; you may guess once. You have {self.max_turns} turns. Attributes: {attributes}."
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Random choices of things, each with one that is meant; "val" and "test" hold each once."""
        key = f"{KEY}:{self.things}:{self.size}:{self.spare}"
        return drawn(
            split, LENGTHS[split], self._draw, key=key, same=lambda task: [*task.metadata["things"], task.answer]
        )

    def opening(self) -> str:
        """Name the things."""
        self.shown = self.left = _mask(self.task.metadata["things"])
        self.secret = _mask([self.task.answer])
        return _words(self.left)

    def state(self) -> str:
        """The things still possible and the turns left."""
        return f"{_words(self.left)} {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Answer a question, or judge a guess."""
        word = find_choice(final_text(action), self.meanings)
        having = _having().get(word) if word else None
        before = self.left
        if having is None:
            thing = _mask([word]) if word else 0
            if not thing & self.shown:
                shown = f"! {_words(self.left if self.remind else self.shown)}"
                return self.outcome(shown, valid=False, left=before.bit_count(), bits=0.0)
            won = thing == self.secret
            self.left = thing if won else self.left & ~thing
            return self._answer("", before, won=won, lost=not won)
        has = bool(having & self.secret)
        self.left &= having if has else ~having
        answer = "yes" if has else "no"
        return self._answer(f"{answer} {_words(self.left)}" if self.remind else answer, before)

    def oracle(self) -> Iterator[Message]:
        """Greedy bisection."""
        while True:
            yield assistant(best(self.left))

    def random(self, rng: np.random.Generator) -> Message:
        """Any attribute or any of the things named at first."""
        words = [*ATTRIBUTES, *self.task.metadata["things"]]
        return assistant(words[int(rng.integers(len(words)))])

    def attacks(self) -> Sequence[str]:
        """Among others: every thing in one reply, every attribute in one reply."""
        shown = self.task.metadata["things"]
        return (*super().attacks(), " ".join(shown), "\n".join(shown) + "\n?", " ".join(ATTRIBUTES), "yes", "win")

    def _answer(self, shown: str, before: int, *, won: bool = False, lost: bool = False) -> Outcome:
        left = self.left.bit_count()
        return self.outcome(shown, won=won, lost=lost, left=left, bits=log2(before.bit_count() / left))

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            chosen = sorted(rng.choice(self.things, self.size, replace=False).tolist())
            names = [_names()[i] for i in chosen]
            secret = names[int(rng.integers(self.size))]
            if _needed(_mask(names), _mask([secret])) <= self.questions:
                return Task("", answer=secret, metadata={"things": names})


@lru_cache(maxsize=50_000)
def best(left: int) -> str:
    """The attribute that halves the things of the bit set `left` most evenly, or the thing if it is the only one."""
    number = left.bit_count()
    if number == 1:
        return _words(left)
    return min(_having(), key=lambda word: abs(2 * (_having()[word] & left).bit_count() - number))


def _needed(left: int, secret: int) -> int:
    """The questions that bisection asks before it knows the `secret`."""
    asked = 0
    while left != secret:
        having = _having()[best(left)]
        left &= having if having & secret else ~having
        asked += 1
    return asked


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(things())


@lru_cache(maxsize=1)
def _bits() -> dict[str, int]:
    return {name: 1 << i for i, name in enumerate(_names())}


@lru_cache(maxsize=1)
def _having() -> dict[str, int]:
    """For each attribute the things that have it, as a bit set."""
    return {word: _mask(name for name, has in things().items() if word in has) for word in ATTRIBUTES}


def _mask(names: Iterator[str] | Sequence[str]) -> int:
    return sum(map(_bits().__getitem__, names))


@lru_cache(maxsize=50_000)
def _words(left: int) -> str:
    """The names of a bit set."""
    return " ".join(name for i, name in enumerate(_names()) if left >> i & 1)
