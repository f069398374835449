"""The secrets that remain possible in a deduction game, and a search for guesses that are sure to win in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

ANSWER_CACHE_SIZE = 1 << 16  # answers to a (guess, secret) pair that are cached
GROUP_CACHE_SIZE = 4096  # guesses whose answers for all secrets are cached
PLAN_CACHE_SIZE = 1 << 16  # (remaining secrets, turns) pairs whose plans are cached
MAX_RANKED_GUESSES = 250  # guesses that are ranked; of more guesses an evenly spaced sample
MAX_TRIED_GUESSES = 12  # best-ranked guesses that a search tries before it gives up


class Candidates:
    """The secrets of a game and the answers to guesses. A set of secrets is an int: bit i stands for `secrets[i]`.

    Args:
        secrets: All secrets of the game, each a valid guess.
        score: Function from a guess and a secret to the answer. It must be deterministic.
    """

    def __init__(self, secrets: Sequence[str], score: Callable[[str, str], str]) -> None:
        self.secrets = tuple(secrets)
        self._score, self.score = score, lru_cache(ANSWER_CACHE_SIZE)(score)
        self.all_secrets = (1 << len(self.secrets)) - 1
        self.groups = lru_cache(GROUP_CACHE_SIZE)(self._groups)
        self._plan = lru_cache(PLAN_CACHE_SIZE)(self._find_plan)

    def narrow(self, left: int, guess: str, answer: str) -> int:
        """Return the secrets of the set `left` for which `guess` gets `answer`."""
        return left & self.groups(guess).get(answer, 0)

    def best_guess(self, left: int, turns: int) -> str:
        """Return a guess for a player who knows that the secret is in the set `left` and has `turns` guesses.

        It is the best-ranked guess with which the game is sure to be won in `turns` guesses, if the search finds one,
        and else the best-ranked member of `left`. A guess ranks the higher, the smaller the largest group is that can
        remain after its answer (minimax, as in Knuth's Mastermind, 1977).
        """
        return self._plan(left, turns) or next(self._rank_guesses(left, self._members(left)))

    def _groups(self, guess: str) -> dict[str, int]:
        """Return each possible answer to `guess` with the set of secrets that give it."""
        groups: dict[str, int] = {}
        for index, secret in enumerate(self.secrets):
            answer = self._score(guess, secret)
            groups[answer] = groups.get(answer, 0) | 1 << index
        return groups

    def _find_plan(self, left: int, turns: int) -> str:
        """Return a guess after which `turns` guesses in all suffice for every secret of `left`; "" if none is found."""
        members = self._members(left)
        if len(members) == 1:
            return members[0]
        if turns < 2:
            return ""
        for guesses in (members, self.secrets):
            for _, guess in zip(range(MAX_TRIED_GUESSES), self._rank_guesses(left, guesses), strict=False):
                if self._surely_wins(guess, left, turns):
                    return guess
        return ""

    def _surely_wins(self, guess: str, left: int, turns: int) -> bool:
        full_score = self.score(guess, guess)
        groups = [left & group for answer, group in self.groups(guess).items() if answer != full_score]
        if left in groups:
            return False  # every secret of `left` gives the same answer
        return all(self._plan(group, turns - 1) for group in sorted(groups, key=int.bit_count, reverse=True) if group)

    def _rank_guesses(self, left: int, guesses: Sequence[str]) -> Iterator[str]:
        """Yield guesses in order of the size of the largest group of `left` that can remain, smallest first."""
        spread = guesses[:: -(-len(guesses) // MAX_RANKED_GUESSES)]
        largest = {guess: max((left & group).bit_count() for group in self.groups(guess).values()) for guess in spread}
        return iter(sorted(spread, key=largest.__getitem__))

    def _members(self, left: int) -> list[str]:
        members = []
        while left:
            lowest = left & -left
            members.append(self.secrets[lowest.bit_length() - 1])
            left ^= lowest
        return members
