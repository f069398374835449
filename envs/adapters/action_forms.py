"""How a reply states an action of a Gymnasium space: by a name, by numbers, or as text, on its last line."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from envs.grading.choice import find_choice, last_line, plain_minus

MAX_NUMBERS = 16  # of an action that consists of several
_NUMBER = re.compile(r"[-+]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?")
_ONLY_NUMBERS = re.compile(rf"\W*{_NUMBER.pattern}(?:[\s,;]+{_NUMBER.pattern})*\W*")


class ActionForm(ABC):
    """The form of the actions of a space.

    Attributes:
        rule: A sentence that says which replies are actions.
        example: A reply that is one.
    """

    rule: str
    example: str

    @abstractmethod
    def parse(self, reply: str) -> Any:
        """Return the action that `reply` states, which the space contains; None if it states none, or several."""

    @abstractmethod
    def random(self, rng: np.random.Generator) -> str:
        """Return a reply that states a random action."""

    @property
    def instruction(self) -> str:
        """Say how to reply, with an example."""
        return (
            f"{self.rule} You may think first; put the action alone on the last line of your reply, for example:\n"
            f"{self.example}"
        )

    @property
    def correction(self) -> str:
        """Say that a reply was no action, and what is expected."""
        return (
            f"The last line of your reply states no action, or more than one. {self.rule} For example:\n{self.example}"
        )


class NamedActions(ActionForm):
    """A Discrete space whose actions have names.

    Raises ValueError if two names are equal or their number is not that of the actions.
    """

    def __init__(self, space: spaces.Discrete, names: Sequence[str]) -> None:
        meanings = {name.lower(): number for number, name in enumerate(names, int(space.start))}
        if len(names) != int(space.n):
            raise ValueError(f"{len(names)} names ({', '.join(names)}) for {space.n} actions")
        if len(meanings) != len(names) or "" in meanings:
            raise ValueError(f"names of actions must differ and not be empty: {', '.join(names)}")
        self.names, self.meanings = tuple(names), meanings
        self.rule = f"Each turn you choose one of these actions: {', '.join(names)}."
        self.example = names[0]

    def parse(self, reply: str) -> int | None:
        """Return the number of the one action that the last line names."""
        return find_choice(reply, self.meanings)

    def random(self, rng: np.random.Generator) -> str:
        """Return one of the names, each equally likely."""
        return self.names[int(rng.integers(len(self.names)))]


class NumberActions(ActionForm):
    """A Box, MultiDiscrete or MultiBinary space: all numbers of the action, separated by spaces.

    Raises ValueError for more than `MAX_NUMBERS` numbers.
    """

    def __init__(self, space: spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary) -> None:
        if not 0 < int(np.prod(space.shape)) <= MAX_NUMBERS:
            raise ValueError(
                f"an action of {int(np.prod(space.shape))} numbers is too long; {MAX_NUMBERS} are the most"
            )
        self.space = space
        self.low, self.high = _bounds(space)
        self.is_whole = not np.issubdtype(np.dtype(space.dtype), np.floating)
        kind = "whole number" if self.is_whole else "number"
        ranges = [f"from {_format(low)} to {_format(high)}" for low, high in zip(self.low, self.high, strict=True)]
        if len(ranges) == 1:
            self.rule = f"Each turn your action is one {kind} {ranges[0]}."
        else:
            each = f"each {ranges[0]}" if len(set(ranges)) == 1 else f"in this order: {', '.join(ranges)}"
            self.rule = f"Each turn your action is {len(ranges)} {kind}s separated by spaces, {each}."
        middle = np.clip(np.zeros_like(self.low), self.low, self.high)
        self.example = " ".join(map(_format, middle))

    def parse(self, reply: str) -> np.ndarray | None:
        """Return the array of the numbers on the last line, None if they are too few, too many or out of range."""
        line = plain_minus(last_line(reply))
        if len(line) > 1000 or not _ONLY_NUMBERS.fullmatch(line):
            return None
        numbers = [float(word) for word in _NUMBER.findall(line)]
        if len(numbers) != len(self.low) or (self.is_whole and any(number % 1 for number in numbers)):
            return None
        if not all(low <= number <= high for low, number, high in zip(self.low, numbers, self.high, strict=True)):
            return None
        action = np.array(numbers, dtype=self.space.dtype).reshape(self.space.shape)
        return action if self.space.contains(action) else None

    def random(self, rng: np.random.Generator) -> str:
        """Return numbers that are uniform in their ranges, an endless range cut at 1 beyond its other end or 0."""
        low = np.where(np.isfinite(self.low), self.low, np.minimum(self.high, 0) - 1)
        high = np.where(np.isfinite(self.high), self.high, np.maximum(low, 0) + 1)
        draws = rng.integers(low, high, endpoint=True) if self.is_whole else rng.uniform(low, high)
        return " ".join(map(_format, draws))


class TextActions(ActionForm):
    """A Text space: the last line of the reply."""

    def __init__(self, space: spaces.Text) -> None:
        self.space = space
        self.rule = f"Each turn your action is a text of {space.min_length} to {space.max_length} characters."
        self.alphabet = sorted(space.character_set)
        letters = [letter for letter in self.alphabet if letter.isalnum()] or self.alphabet
        self.example = "".join((letters * max(space.min_length, 1))[: max(space.min_length, 1)])

    def parse(self, reply: str) -> str | None:
        """Return the last line, None if it is too long, too short or has characters that the space does not know."""
        line = last_line(reply)
        return line if self.space.contains(line) else None

    def random(self, rng: np.random.Generator) -> str:
        """Return a text of random length and characters."""
        length = int(rng.integers(self.space.min_length, self.space.max_length + 1))
        return "".join(self.alphabet[i] for i in rng.integers(len(self.alphabet), size=length))


def action_form(space: spaces.Space, names: Sequence[str] = ()) -> ActionForm:
    """Return the form of the actions of `space`; `names` are those of a Discrete space, its numbers if there are none.

    Raises ValueError for a space that no form covers, and for names that do not fit.
    """
    if isinstance(space, spaces.Discrete):
        numbers = range(int(space.start), int(space.start + space.n))
        return NamedActions(space, names or [str(number) for number in numbers])
    if names:
        raise ValueError(f"names of actions are for Discrete actions; this environment has {space}")
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return NumberActions(space)
    if isinstance(space, spaces.Text):
        return TextActions(space)
    raise ValueError(f"actions of {type(space).__name__} cannot be written as text: {space}")


def _bounds(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest value of each number of an action, flat."""
    if isinstance(space, spaces.Box):
        return np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return np.zeros(size), np.ones(size)
    start = np.ravel(space.start).astype(float)
    return start, start + np.ravel(space.nvec) - 1


def _format(number: Any) -> str:
    number = float(number)
    return str(int(number)) if number.is_integer() else f"{number:.4g}"
