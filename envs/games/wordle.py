"""Wordle: find a word from marks on the letters of each guess, with the word list of `envs.games.words`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from envs.episodes.guide import Guide
from envs.games.candidates import Candidates
from envs.games.deduction import Deduction
from envs.games.game import check_range
from envs.games.words import LENGTHS, words
from envs.grading.choice import choice_line, plain_answer
from envs.grading.doubts import denies_around
from envs.grading.lines import last_line
from envs.procedural import digest

ROWS = {5: 6, 4: 7, 3: 8}  # letters -> guesses, with the opening one; more short words differ in one letter


class Wordle(Deduction):
    """Find a secret word; every guess is answered with marks on its letters.

    Observation: `CRANE g-y--` first, the opening guess and its answer; then answers only, `gg-y-`, a mark for each
    letter of the guess: `g` the right letter, `y` a letter that is elsewhere in the word, `-` neither. A letter that
    the guess contains more often than the word is marked as often as the word contains it, `g` before `y`, then from
    the left. In full style the instructions first, and the letters of each guess over their marks. After an invalid
    reply the form of a guess, `5 letters?`.
    Action: a word, `CRATE` or `crate`, which need not be in the word list. In a longer reply the last line counts; it
    must be one word of the right length, alone or after words such as "my guess is", or name one in capitals, in
    brackets, quotes or asterisks, or after a colon at the end.
    Anything else is invalid and costs a turn.
    Reward: 1 for the secret, else 0; its only named part is `win`.
    Metrics: `left`, the words of the list that fit all answers; `bits`, the information the turn gained.
    Episode end: terminated by the right guess; truncated after `max_turns`, by default 5 with five letters, 6 with
    four, 7 with three, and one more without an opening guess.
    Arguments: `letters` of a word, 3 to 5; `words`, how many words of the list are in the game (0: all); `opened`: the
    first guess is already made, and it differs between tasks.
    Splits: a task is a pair of an opening guess and a secret, with opened=False a secret.
    State: the guesses with their answers in sorted order, and the turns left.
    Source and licence: own word list. Version history: v0.
    """

    def __init__(
        self,
        *,
        letters: int = 5,
        words: int = 64,
        opened: bool = True,
        max_turns: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.letters = check_range("letters", letters, LENGTHS)
        most = len(_shuffled_words(self.letters))
        self.words = check_range("words", words or most, range(10, most + 1), why=f"as many as {letters} letters have")
        most_turns = ROWS[self.letters] - bool(opened) if max_turns is None else max_turns
        super().__init__(opened=opened, max_turns=most_turns, **kwargs)

    @property
    def hint(self) -> str:
        """Form of a guess, such as `5 letters`."""
        return f"{self.letters} letters"

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1"."""
        return (
            f"Find my word of {self.hint}. I mark each letter of a guess: g right, y elsewhere in the word, - neither. "
            f"Reply with one word only. You have {self.max_turns} guesses."
        )

    def guide(self) -> Guide:
        """Say what the marks under a guess mean."""
        beginning = " You begin with one guess already made for you." if self.opened else ""
        return Guide(
            goal=f"Play Wordle: find a secret English word of {self.letters} letters. You succeed when you guess it.",
            rules=(
                "Each guess is shown with a mark under each of its letters. If a guess has a letter more often than "
                "the word, only as many of them are marked g or y as the word has; the others are marked -. A guess "
                f"may be any {self.letters} letters.{beginning}"
            ),
            legend={
                "g": "the letter is in the word, in this place",
                "y": "the letter is in the word, in another place",
                "-": "the letter is not in the word, or all that the word has of it are already marked g or y",
            },
            reading=(
                "For example, `T E A` over `y - g` means: A is the third letter, T is in the word, but not the first "
                "letter, and E is not in the word."
            ),
            reply=f"Reply with one guess: a word of {self.letters} letters.",
            noun="guess",
            example=self.task.metadata["opening"] or "ABCDE"[: self.letters],
            ending="The episode ends when you guess the word.",
            invalid="A reply without a guess of this form, or with several, uses up a reply.",
            heading="What you know:",
        )

    def full_answer(self, guess: str, answer: str) -> str:
        """Write the letters of a guess over their marks."""
        self._marks = " ".join(answer)
        return f"{' '.join(guess)}\n{self._marks}"

    def drawing(self) -> str:
        """Return the marks of the latest guess."""
        return self._marks

    def opening(self) -> str:
        """Return the opening guess with its answer, if there is one."""
        self._marks = ""
        return super().opening()

    def candidates(self) -> Candidates:
        """Return the words of the game."""
        return _candidates(self.letters, self.words)

    def parse_guess(self, reply: str) -> str | None:
        """Parse the only word that the last line of the reply names; None if it names none or several."""
        line = last_line(reply)
        for answer in (line, plain_answer(line)):
            if len(answer) == self.letters and answer.isascii() and answer.isalpha():
                return answer.upper()
        if word := _spelled(choice_line(reply), self.letters):
            return word
        words = {
            (match[1] or match[2] or match[3]).upper()
            for match in _word_pattern(self.letters).finditer(line)
            if not denies_around(line, match)
        }
        return words.pop() if len(words) == 1 else None


def _spelled(line: str, letters: int) -> str | None:
    """The word whose letters stand one by one at the end of a line, `C R A N E`, after words that announce it."""
    match = re.search(rf"(?<![\w'])[A-Za-z](?:[ ,-]+[A-Za-z]){{{letters - 1}}}(?=[\s.!*_`\"”)\]}}]*$)", line)
    if match is None or plain_answer(line[: match.start()]) or re.search(r"(?<!\w)\w[^\w:]*$", line[: match.start()]):
        return None
    return "".join(filter(str.isalpha, match[0])).upper()


def mark_guess(guess: str, secret: str) -> str:
    """Return the marks of a guess, letter by letter; repeated letters are marked as Wordle does."""
    unmatched = [right for letter, right in zip(guess, secret, strict=True) if letter != right]
    marks = ""
    for letter, right in zip(guess, secret, strict=True):
        if letter == right:
            marks += "g"
        elif letter in unmatched:
            unmatched.remove(letter)
            marks += "y"
        else:
            marks += "-"
    return marks


@lru_cache
def _shuffled_words(letters: int) -> tuple[str, ...]:
    """Return the word list in a fixed shuffled order, so that its first words are a random sample."""
    return tuple(sorted(words(letters), key=lambda word: digest("games/Wordle-v0", word)))


@lru_cache
def _candidates(letters: int, most: int) -> Candidates:
    return Candidates(_shuffled_words(letters)[:most], mark_guess)


@lru_cache
def _word_pattern(letters: int) -> re.Pattern[str]:
    word = f"[A-Za-z]{{{letters}}}"
    return re.compile(
        rf"(?<![\w'])([A-Z]{{{letters}}})(?![\w'])|(?<!\w)[\[({{<\"*`'\u201c]({word})[\])}}>\"*`'\u201d](?!\w)"
        rf"|:\s{{0,3}}({word})[.!]?$"
    )
