"""What is still possible in a game of deduction, and the guess that is sure to end it in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

ANSWERS = 1 << 16  # answers to one guess for one secret that are remembered
GUESSES = 4096  # guesses whose answers for all secrets are remembered
PLANS = 1 << 16  # situations whose plans are remembered
WEIGHED = 250  # guesses that are weighed against each other, evenly spread where there are more
TRIED = 12  # guesses a plan considers before it counts as impossible


class Candidates:
    """The secrets a game chooses from and how it answers a guess. A set of secrets is an int, one bit each."""

    def __init__(self, secrets: Sequence[str], score: Callable[[str, str], str]) -> None:
        self.secrets = tuple(secrets)
        self._score, self.score = score, lru_cache(ANSWERS)(score)
        self.everything = (1 << len(self.secrets)) - 1
        self.groups = lru_cache(GUESSES)(self._groups)
        self._plan = lru_cache(PLANS)(self._planned)

    def after(self, left: int, guess: str, answer: str) -> int:
        """Those of `left` that would have given this answer to the guess."""
        return left & self.groups(guess).get(answer, 0)

    def guess(self, left: int, turns: int) -> str:
        """A guess for somebody who knows that the secret is in `left` and has `turns` guesses.

        One of `left` that splits it best (the largest remaining group is smallest, as in Knuth's Mastermind, 1977),
        or the next best guess with which the game is sure to be won in time, if there is any.
        """
        return self._plan(left, turns) or next(self._ranked(left, self._members(left)))

    def _groups(self, guess: str) -> dict[str, int]:
        """Every answer to the guess with the secrets that give it."""
        groups: dict[str, int] = {}
        for place, secret in enumerate(self.secrets):
            answer = self._score(guess, secret)
            groups[answer] = groups.get(answer, 0) | 1 << place
        return groups

    def _planned(self, left: int, turns: int) -> str:
        """A guess with which `turns` are enough for each of `left`, or "" where none was found."""
        members = self._members(left)
        if len(members) == 1:
            return members[0]
        if turns < 2:
            return ""
        for guesses in (members, self.secrets):
            for _, guess in zip(range(TRIED), self._ranked(left, guesses), strict=False):
                if self._is_sure(guess, left, turns):
                    return guess
        return ""

    def _is_sure(self, guess: str, left: int, turns: int) -> bool:
        won = self.score(guess, guess)
        groups = [left & group for answer, group in self.groups(guess).items() if answer != won]
        if left in groups:
            return False  # the guess would tell nothing
        return all(self._plan(group, turns - 1) for group in sorted(groups, key=int.bit_count, reverse=True) if group)

    def _ranked(self, left: int, guesses: Sequence[str]) -> Iterator[str]:
        """Guesses, those first that split `left` best."""
        spread = guesses[:: -(-len(guesses) // WEIGHED)]
        largest = {guess: max((left & group).bit_count() for group in self.groups(guess).values()) for guess in spread}
        return iter(sorted(spread, key=largest.__getitem__))

    def _members(self, left: int) -> list[str]:
        members = []
        while left:
            lowest = left & -left
            members.append(self.secrets[lowest.bit_length() - 1])
            left ^= lowest
        return members
