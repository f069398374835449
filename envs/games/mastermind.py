"""Mastermind: find a code of digits from the number of digits in the right place and in another place."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from operator import eq
from typing import Any

from envs.episodes.guide import Guide, count
from envs.games.candidates import Candidates
from envs.games.deduction import Deduction
from envs.games.game import check_range
from envs.grading.doubts import denies_around
from envs.grading.lines import last_line

HOLES, COLOURS = range(2, 6), range(2, 10)
CODES = 1296  # limit of codes, that of the classic game: the oracle compares each with each


class Mastermind(Deduction):
    """Find a secret code; digits are the colours and may occur more than once.

    Observation: `312 +-.` first, the opening guess and its answer; then answers only, `++.`: a `+` for each digit in
    its right place, a `-` for each other digit that the code has elsewhere, filled up with `.`; the order of the marks
    does not depend on the places. In full style the instructions first, and sentences. After an invalid reply the form
    of a guess, `3 digits 1-4?`.
    Action: a code, `213`; spaces, commas or hyphens may stand between its digits. Of a longer reply the last line
    counts, and it must hold one code only and no other digit. Anything else is invalid and costs a turn.
    Reward: 1 for the code, else 0; its only named part is `win`.
    Metrics: `left`, the codes that fit all answers; `bits`, the information the turn gained.
    Episode end: terminated by the right guess; truncated after `max_turns`, by default `holes` + 3.
    Arguments: `holes`, digits of a code; `colours`, digits to choose from, at most 1296 codes in all (the classic game
    is holes=4, colours=6); `opened`: the first guess is already made, and it differs between tasks.
    Splits: a task is a pair of an opening guess and a code, with opened=False a code.
    State: the guesses with their answers in sorted order, and the turns left.
    Source and licence: generated. Version history: v0.
    """

    def __init__(self, *, holes: int = 3, colours: int = 4, max_turns: int | None = None, **kwargs: Any) -> None:
        self.holes, self.colours = check_range("holes", holes, HOLES), check_range("colours", colours, COLOURS)
        if not 10 <= colours**holes <= CODES:
            raise ValueError(f"holes={holes} and colours={colours} give {colours**holes} codes, outside 10..{CODES}")
        super().__init__(max_turns=holes + 3 if max_turns is None else max_turns, **kwargs)

    @property
    def hint(self) -> str:
        """Form of a guess, such as `3 digits 1-4`."""
        return f"{self.holes} digits 1-{self.colours}"

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1"."""
        return (
            f"Find my code of {self.hint}, digits may repeat. To each guess I answer + for a digit in its place, "
            f"- for a digit elsewhere in the code, . for the rest, sorted. Reply with {self.holes} digits only. "
            f"You have {self.max_turns} guesses."
        )

    def guide(self) -> Guide:
        """Say what a code is, and what is told after a guess."""
        beginning = " You begin with one guess already made for you." if self.opened else ""
        return Guide(
            goal=(
                f"Play Mastermind: find a secret code of {self.holes} digits, each from 1 to {self.colours}; a digit "
                "may occur more than once. You succeed when you guess the code."
            ),
            rules=(
                "After each guess you are told three numbers: how many of its digits are in the right place, how many "
                "of the other digits are in the code, but in another place, and how many are left over. Each digit of "
                "the code is matched with one digit of the guess at most, and the digits without a match are those "
                f"left over. You are not told which digits these are.{beginning}"
            ),
            reading=(
                "For example, if the code is 1223, the guess 2213 has two digits in the right place (the second 2 and "
                "the 3), two in another place (the first 2 and the 1) and none left over. The guess 3334 has one digit "
                "in another place, because the code has one 3, and three left over: the other two 3s and the 4."
            ),
            reply=f"Reply with one guess: {self.holes} digits from 1 to {self.colours}, written together.",
            noun="guess",
            example=self.task.metadata["opening"] or self.candidates().secrets[1],
            ending="The episode ends when you guess the code.",
            invalid="A reply without a guess of this form, or with several, uses up a reply.",
            heading="What you know:",
        )

    def full_answer(self, guess: str, answer: str) -> str:
        """Say how many digits are in place, elsewhere, and without a match in the code."""
        return (
            f"Guess {guess}: {count(answer.count('+'), 'digit')} in the right place, {answer.count('-')} in another "
            f"place, {answer.count('.')} left over."
        )

    def candidates(self) -> Candidates:
        """Return all codes of the game."""
        return _candidates(self.holes, self.colours)

    def parse_guess(self, reply: str) -> str | None:
        """Parse the only code in the last line of the reply; None if it holds none, several, or other digits."""
        if reply in _code_set(self.holes, self.colours):  # the usual reply, without a search
            return reply
        line = last_line(reply)
        codes = {
            re.sub("[ ,-]", "", match[0])
            for match in _code_pattern(self.holes).finditer(line)
            if not denies_around(line, match)
        }
        if len(codes) != 1 or re.search(r"\d", _code_pattern(self.holes).sub("", line)):
            return None
        code = codes.pop()
        return code if code in _code_set(self.holes, self.colours) else None


@lru_cache
def _candidates(holes: int, colours: int) -> Candidates:
    digits = "".join(map(str, range(1, colours + 1)))
    return Candidates(["".join(code) for code in product(digits, repeat=holes)], score_guess)


@lru_cache
def _code_set(holes: int, colours: int) -> frozenset[str]:
    return frozenset(_candidates(holes, colours).secrets)


@lru_cache
def _code_pattern(holes: int) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.])[0-9](?:[ ,-]{{0,2}}[0-9]){{{holes - 1}}}(?![\w%]|[.,-]{{1,2}}\d)")


def score_guess(guess: str, code: str) -> str:
    """Return the answer to a guess: `+` per digit in its place, `-` per digit elsewhere in the code, then `.`."""
    exact = sum(map(eq, guess, code))
    common = sum(min(guess.count(digit), code.count(digit)) for digit in set(guess))
    return "+" * exact + "-" * (common - exact) + "." * (len(code) - common)
