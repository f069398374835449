"""Twenty questions: find a thing by asking for its attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log2
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import Game, check_range
from envs.games.ontology import ATTRIBUTES, things
from envs.grading.choice import find_choice
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

KEY = "games/TwentyQuestions-v0"
LENGTHS = {"train": 5_000, "val": 100, "test": 200}
MIN_THINGS, MIN_SIZE = 16, 4


class TwentyQuestions(Game):
    """Find the secret thing among a few by asking for attributes, then name it.

    Observation: the things it may be, `dog hen oak bee axe owl pea cod`; then the answer and the things that remain,
    `yes dog hen bee owl`. With `remind=False` only `yes` or `no`. After an invalid reply `!` and the things that
    remain, with `remind=False` those of the beginning. In full style the instructions first, and sentences.
    Action: an attribute, `wings`, which asks whether the thing has it, or a thing, which is the only guess; of a longer
    reply the one attribute or thing that its last line names. A reply without one, or a thing that the first
    observation does not name, is invalid; it still costs a turn.
    Reward: 1 for the right guess, else 0; its only named part is `win`.
    Metrics: `left`, how many things remain after the turn; `bits`, the information the turn gained.
    Episode end: terminated by a guess, right or wrong; truncated after as many turns as perfect halving and a guess
    need, plus `spare`.
    Arguments: `size`, how many things it may be, drawn from the first `things` of the ontology in
    `envs.games.ontology`, which also explains the attributes; `spare`; `remind`.
    Splits: a task is a set of things and the secret. The oracle, greedy bisection, wins every task in time.
    State: the things that remain and the turns left.
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
        **kwargs: Any,
    ) -> None:
        self.things = check_range("things", things, range(MIN_THINGS, len(_names()) + 1))
        why = f"at most half of {things} things"
        self.size = check_range("size", size, range(MIN_SIZE, self.things // 2 + 1), why=why)
        self.spare = check_range("spare", spare, range(100))
        self.questions = (self.size - 1).bit_length() + self.spare
        super().__init__(max_turns=self.questions + 1 if max_turns is None else max_turns, **kwargs)
        self.remind = bool(remind)
        self.meanings = {word: word for word in (*ATTRIBUTES, *_names()[: self.things])}

    @property
    def rules(self) -> str:
        """Rules of the game with the attributes, in style "v1"."""
        attributes = ", ".join(f"{name} ({meaning})" for name, meaning in ATTRIBUTES.items())
        return (
            "I mean one of the things I name. Each turn reply with one attribute, and I say whether the thing has it, "
            f"or with the thing itself; you may guess once. You have {self.max_turns} turns. Attributes: {attributes}."
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random sets of things with a secret; "val" and "test" contain each once."""
        key = f"{KEY}:{self.things}:{self.size}:{self.spare}"
        return drawn(
            split, LENGTHS[split], self._draw, key=key, same=lambda task: [*task.metadata["things"], task.answer]
        )

    def opening(self) -> str:
        """Return the names of the things."""
        self.initial = self.remaining = _mask(self.task.metadata["things"])
        self.secret = _mask([self.task.answer])
        if self.style != "full":
            return _format_names(self.remaining)
        return f"The thing is one of these: {_list_names(self.remaining)}."

    def guide(self) -> Guide:
        """Say what may be asked, what the attributes mean, and that there is one guess."""
        attributes = "\n".join(f"{name}: the thing {meaning}" for name, meaning in ATTRIBUTES.items())
        return Guide(
            goal=(
                f"Find out which one of {self.size} things is meant, by asking about attributes, and then name it. You "
                "succeed if the thing that you name is the right one. You may name only one thing: a wrong one ends "
                "the episode, and you have failed."
            ),
            rules=(
                "If you reply with an attribute, you are told yes or no: whether the thing has it"
                f"{', and which things are still possible' * self.remind}. If you reply with the name of one of the "
                f"things, that is your guess.\n\nThese are the attributes and what they ask:\n{attributes}"
            ),
            reply="Reply with one word: an attribute to ask about, or the thing to name. Only one word per reply.",
            noun="word",
            example="animal",
            ending="The episode ends when you name a thing.",
            invalid="A reply that names no attribute or possible thing, or several, uses up a reply.",
            heading="The things:",
        )

    def state(self) -> str:
        """Return the things that remain and the number of turns left."""
        return f"{_format_names(self.remaining)} {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Answer a question, or end the episode with a guess."""
        word = find_choice(final_text(action), self.meanings)
        members = _attribute_masks().get(word) if word else None
        before = self.remaining
        if members is None:
            thing = _mask([word]) if word else 0
            if not thing & self.initial:
                names = self.remaining if self.remind else self.initial
                fault = "Your reply does not name exactly one attribute or one of the things."
                observation = f"The thing is one of these: {_list_names(names)}."
                feedback = self.correction(fault, observation, short=f"! {_format_names(names)}")
                return self.outcome(feedback, valid=False, left=before.bit_count(), bits=0.0)
            is_right = thing == self.secret
            self.remaining = thing if is_right else self.remaining & ~thing
            answer = f"{'Yes, the thing is' if is_right else 'No, the thing is not'} {_list_names(thing)}."
            return self._answer_outcome(answer, before, is_won=is_right, is_lost=not is_right)
        has_attribute = bool(members & self.secret)
        self.remaining &= members if has_attribute else ~members
        answer = "yes" if has_attribute else "no"
        if self.style == "full":
            rest = f" The thing is one of these: {_list_names(self.remaining)}." if self.remind else ""
            return self._answer_outcome(f"{answer.capitalize()}.{rest}", before)
        return self._answer_outcome(f"{answer} {_format_names(self.remaining)}" if self.remind else answer, before)

    def oracle(self) -> Iterator[Message]:
        """Yield the attributes of greedy bisection, then the thing."""
        while True:
            yield assistant(best_word(self.remaining))

    def random(self, rng: np.random.Generator) -> Message:
        """Return an attribute or one of the things of the task, each equally likely."""
        words = [*ATTRIBUTES, *self.task.metadata["things"]]
        return assistant(words[int(rng.integers(len(words)))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them all things in one reply and all attributes in one reply."""
        things = self.task.metadata["things"]
        return (*super().attacks(), " ".join(things), "\n".join(things) + "\n?", " ".join(ATTRIBUTES), "yes", "win")

    def _answer_outcome(self, observation: str, before: int, *, is_won: bool = False, is_lost: bool = False) -> Outcome:
        left = self.remaining.bit_count()
        return self.outcome(
            observation, is_won=is_won, is_lost=is_lost, left=left, bits=log2(before.bit_count() / left)
        )

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            sample = sorted(rng.choice(self.things, self.size, replace=False).tolist())
            names = [_names()[i] for i in sample]
            secret = names[int(rng.integers(self.size))]
            if _count_questions(_mask(names), _mask([secret])) <= self.questions:
                return Task("", answer=secret, metadata={"things": names})


@lru_cache(maxsize=50_000)
def best_word(left: int) -> str:
    """Return the attribute that splits the bit set `left` of things most evenly, or the thing if only one is left."""
    number = left.bit_count()
    if number == 1:
        return _format_names(left)
    return min(_attribute_masks(), key=lambda word: abs(2 * (_attribute_masks()[word] & left).bit_count() - number))


def _count_questions(left: int, secret: int) -> int:
    """Return how many questions bisection asks before only `secret` is left. Both arguments are bit sets."""
    questions = 0
    while left != secret:
        members = _attribute_masks()[best_word(left)]
        left &= members if members & secret else ~members
        questions += 1
    return questions


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(things())


@lru_cache(maxsize=1)
def _bits() -> dict[str, int]:
    return {name: 1 << i for i, name in enumerate(_names())}


@lru_cache(maxsize=1)
def _attribute_masks() -> dict[str, int]:
    """Return for each attribute the bit set of the things that have it."""
    return {word: _mask(name for name, attributes in things().items() if word in attributes) for word in ATTRIBUTES}


def _mask(names: Iterator[str] | Sequence[str]) -> int:
    return sum(map(_bits().__getitem__, names))


def _list_names(left: int) -> str:
    """Format a bit set as the names of its things, with commas."""
    return ", ".join(_format_names(left).split())


@lru_cache(maxsize=50_000)
def _format_names(left: int) -> str:
    """Format a bit set as the names of its things."""
    return " ".join(name for i, name in enumerate(_names()) if left >> i & 1)
