"""A word game after Wordle: find a word by its letters, with a word list of its own."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from envs.games.candidates import Candidates
from envs.games.deduction import Deduction
from envs.games.game import checked
from envs.games.words import LENGTHS, words
from envs.grading.choice import last_line
from envs.procedural import digest

ROWS = {5: 6, 4: 7, 3: 8}  # guesses, the opening one included, by letters: short words differ by one letter more often


class Wordle(Deduction):
    """Find a secret word of which every guess shows some letters.

    Observation: `CRANE g-y--` first, the opening guess and its answer; then answers only, `gg-y-`, a mark for each
    letter of the guess: `g` the right letter, `y` a letter that stands elsewhere, `-` neither. A letter that the guess
    has more often than the word is marked as often as the word has it, `g` before `y`, then from the left. After an
    invalid reply the form of a guess, `5 letters?`.
    Action: a word, `CRATE` or `crate`, in the list or not. In a longer reply the last line counts; it must name one
    word of the right length in capitals, in brackets, quotes or asterisks, or after a colon at the end. Anything else
    is invalid and costs a turn.
    Reward: 1 for the secret, else 0; its only named part is `win`.
    Metrics: `left`, the words of the list that fit all answers; `bits`, the information the turn gained.
    Episode end: terminated by the right guess; truncated after `max_turns`, by default 5 with
    five letters, 6 with four, 7 with three, and one more without an opening guess.
    Arguments: `letters` of a word, 3 to 5; `words`, how many of the list's are in the game (0: all);
    `opened`: the first guess is made already, another one in every task; `explain`: the rules open the episode.
    Splits: pairs of an opening guess and a secret, or with opened=False secrets.
    State: the guesses with their answers, whatever their order, and the turns left.
    Source and licence: own word list. Version history: v0.
    """

    def __init__(
        self,
        *,
        letters: int = 5,
        words: int = 64,
        opened: bool = True,
        max_turns: int | None = None,
        **own: Any,
    ) -> None:
        self.letters = checked("letters", letters, LENGTHS)
        most = len(_listed(self.letters))
        self.words = checked("words", words or most, range(10, most + 1), why=f"as many as {letters} letters have")
        most_turns = ROWS[self.letters] - bool(opened) if max_turns is None else max_turns
        super().__init__(opened=opened, max_turns=most_turns, **own)

    @property
    def hint(self) -> str:
        """The form of a guess."""
        return f"{self.letters} letters"

    @property
    def rules(self) -> str:
        """The rules."""
        return (
            f"Find my word of {self.hint}. I mark each letter of a guess: g right, y elsewhere in the word, - neither. "
            f"Reply with one word only. You have {self.max_turns} guesses."
        )

    def candidates(self) -> Candidates:
        """The words in the game."""
        return _words(self.letters, self.words)

    def read(self, reply: str) -> str | None:
        """The one word that the last line names."""
        line = last_line(reply)
        if len(line) == self.letters and line.isascii() and line.isalpha():
            return line.upper()
        found = {(match[1] or match[2] or match[3]).upper() for match in _named(self.letters).finditer(line)}
        return found.pop() if len(found) == 1 else None


def graded(guess: str, secret: str) -> str:
    """The answer to a guess, letter by letter, by the rule for repeated letters."""
    rest = [right for letter, right in zip(guess, secret, strict=True) if letter != right]
    marks = ""
    for letter, right in zip(guess, secret, strict=True):
        if letter == right:
            marks += "g"
        elif letter in rest:
            rest.remove(letter)
            marks += "y"
        else:
            marks += "-"
    return marks


@lru_cache
def _listed(letters: int) -> tuple[str, ...]:
    """The list in a fixed order of chance, so that its beginning is as mixed as the whole."""
    return tuple(sorted(words(letters), key=lambda word: digest("games/Wordle-v0", word)))


@lru_cache
def _words(letters: int, most: int) -> Candidates:
    return Candidates(_listed(letters)[:most], graded)


@lru_cache
def _named(letters: int) -> re.Pattern[str]:
    word = f"[A-Za-z]{{{letters}}}"
    return re.compile(
        rf"(?<![\w'])([A-Z]{{{letters}}})(?![\w'])|(?<!\w)[\[({{<\"*`'\u201c]({word})[\])}}>\"*`'\u201d](?!\w)"
        rf"|:\s{{0,3}}({word})[.!]?$"
    )
