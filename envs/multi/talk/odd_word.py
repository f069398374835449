"""Four players give clues to their words, of which one is another word, and then vote."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import accumulate
from typing import Any

import numpy as np

from envs.episodes.guide import Guide, count
from envs.games.game import check_range
from envs.grading.choice import find_choice, plain_answer
from envs.grading.lines import last_line
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.multi.talk.look_alikes import spellings
from envs.multi.talk.word_pairs import PAIRS
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, final_text, user

MAX_CLUE = 60  # characters
MAX_WORDS = 8
SILENCE = "no clue"
UNKNOWN = 0.5  # how much a clue misfits in which nothing is known, between 0 and 1
_SPACES = re.compile(r"\s+")
_LABEL = re.compile(r"(?:[-*>•]\s+)?[*_]{0,2}(?:my\s+)?clue(?:\s+is)?[*_]{0,2}\s*[:=][*_]{0,2}\s*", re.IGNORECASE)
_ENDINGS = ("", "s", "es", "d", "ed", "ing")  # of the forms of a word
_ORDINARY = frozenset(
    (("may", "or"), ("god",), ("sub",))
)  # words that make one of `PAIRS` by chance, or read backwards
_WORD = re.compile(r"[^\W_]+")


class OddWord(MultiEnv):
    """Find out, by clues, which of four players has another word than the rest; it may be you.

    Observation: the seat's own word; then the clues of all; at last the question whom to vote for.
    Action: in turn a clue to the own word, in the last line, of at most 8 words and 60 characters, without the word;
    then, all at once, the name of another seat.
    Reward: at the end 1 for each winner. The player with the odd word wins if it does not alone have most votes, the
    others win if it does. A seat that has given an invalid clue or vote wins nothing.
    Episode end: terminated after the votes. Success: to win.
    Arguments: `rounds` of clues.
    Seats: `ann`, `ben`, `cleo` and `dan`, alike, in this order; which of them has the odd word is part of the task.
    No one is told. Opponents: `honest` (the default) gives clues to its own word and votes for the seat whose clues
    fit it least. It knows this environment's list of clues, also within longer ones; a clue with none of them counts
    half as much as one that fits the other word.
    Splits: a pair of words with a division of the roles is in one split only; words occur in several.
    State: words, clues and the phase.
    Source and licence: a parlour game known as Undercover or Who Is the Spy; own code and words. Version history: v0.
    """

    seats = ("ann", "ben", "cleo", "dan")
    default_opponent = "honest"
    players = {"honest": "honest"}  # noqa: RUF012

    def __init__(self, *, rounds: int = 2, max_turns: int | None = None, **limits: Any) -> None:
        self.num_rounds = check_range("rounds", rounds, range(1, 6))
        super().__init__(max_turns=rounds + 1 if max_turns is None else max_turns, **limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return pairs of words, each with a majority's word and an odd seat."""
        return enumerated(split, len(PAIRS) * 2 * len(self.seats), self._task, key="multi/OddWord-v0")

    def start(self) -> Round:
        """Give each seat its word, and ask the first for a clue."""
        data = self.task.metadata
        self.pair = PAIRS[data["pair"]]
        self.odd_seat: str = data["odd"]
        self.places = {seat: data["word"] ^ (seat == self.odd_seat) for seat in self.seats}
        self.clues: list[tuple[str, str]] = []
        self.faulty: set[str] = set()
        first = self.seats[0]
        return Round({seat: (user(self._word_text(seat)),) for seat in self.seats}, to_move=(first,))

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Tell all of a clue, or count the votes."""
        if len(self.clues) == len(self.seats) * self.num_rounds:
            return self._count({seat: self._vote(seat, message) for seat, message in replies.items()})
        ((seat, message),) = replies.items()
        clue, fault = self._clue(seat, message)
        self.clues.append((seat, clue or SILENCE))
        self.faulty |= set() if clue else {seat}
        quote = f'"{clue}"' if clue else SILENCE
        texts = {other: (user(f"{seat}: {quote}"),) for other in self.others(seat)}
        if not clue:
            cost = "The others read: no clue. You cannot succeed any more."
            texts[seat] = (user(f"{fault} {cost}" if self._is_full else "?"),)
        invalid = () if clue else (seat,)
        if len(self.clues) < len(self.seats) * self.num_rounds:
            mover = self.seats[len(self.clues) % len(self.seats)]
            texts[mover] = (*texts.get(mover, ()), user("Your clue?" if self._is_full else "clue?"))
            return Round(texts, to_move=(mover,), invalid=invalid)
        question = "Who has the odd word? Vote for one of the others." if self._is_full else "vote?"
        for other in self.seats:
            texts[other] = (*texts.get(other, ()), user(question))
        return Round(texts, to_move=self.seats, invalid=invalid)

    def guide(self, seat: str) -> Guide:
        """Say how the odd word is found."""
        others = ", ".join(self.others(seat))
        return Guide(
            goal=(
                f"You are {seat}, and you play with {others}. Three of you have been given the same word, and one has "
                "been given another, similar word: the odd word. No one knows who that is; it may be you. You succeed "
                "if you have the common word and the votes find out who has the odd one, or if you have the odd word "
                "and the votes do not find you."
            ),
            rules=(
                f"In {count(self.num_rounds, 'round')} each of you in turn gives a short clue to the word that they "
                "were given, and all read it. Then all vote at the same time for the player whom they "
                "believe to have the odd word. The player with the most votes is found; after a tie nobody is. The "
                "others read your clues and nothing else of what you write. Your score is 1 if you succeed, and 0 "
                "otherwise."
            ),
            reply=(
                f"When you are asked for a clue, reply with a few words about your word, at most {MAX_WORDS} words and "
                f"{MAX_CLUE} characters, without the word itself or a form of it. When you are asked for your vote, "
                f"reply with one of the names {others}."
            ),
            noun="clue or vote",
            example="found in many homes",
            ending="The episode ends after the votes.",
            invalid=(
                "A clue or a vote that breaks these rules does not count, and whoever gives one does not succeed; the "
                "game goes on."
            ),
            heading="The game begins:",
        )

    def secrets(self, seat: str) -> Sequence[str]:
        """Return the line with the seat's word."""
        return (self._word_text(seat),) if seat == self.odd_seat else ()

    def state(self) -> str:
        """Return the task, the clues and who has broken the rules."""
        return f"{self.task.id} {self.clues} {sorted(self.faulty)}"

    def oracle(self, seat: str) -> Message:
        """Give a clue that fits the common word, and vote for the odd seat, knowing who that is."""
        if self._is_voting():
            return assistant(self.odd_seat if seat != self.odd_seat else self.others(seat)[0])
        return assistant(self._fresh(seat, self.pair.common if seat == self.odd_seat else self._own_clues(seat)))

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Give any clue of the pair, or vote for any other seat."""
        if self._is_voting():
            return assistant(_pick(rng, self.others(seat)))
        return assistant(_pick(rng, [*self.pair.common, *self.pair.clues[0], *self.pair.clues[1]]))

    def honest(self, seat: str, rng: np.random.Generator) -> Message:
        """Give a clue to the own word; vote for the seat whose clues fit it least."""
        own = self._own_clues(seat)
        if not self._is_voting():
            return assistant(self._fresh(seat, own if rng.random() < 0.5 else self.pair.common))
        alien = self.pair.clues[not self.places[seat]]
        misfits = {
            other: sum(misfit(clue, (*own, *self.pair.common), alien) for name, clue in self.clues if name == other)
            for other in self.others(seat)
        }
        most = max(misfits.values())
        return assistant(_pick(rng, [other for other in misfits if misfits[other] == most]))

    @property
    def _is_full(self) -> bool:
        return self.style == "full"

    def _is_voting(self) -> bool:
        return len(self.to_move) > 1

    def _own_clues(self, seat: str) -> Sequence[str]:
        return self.pair.clues[self.places[seat]]

    def _fresh(self, seat: str, clues: Sequence[str]) -> str:
        """The first of the clues that no one has given, else the first."""
        earlier = [clue for _, clue in self.clues]
        return next((clue for clue in clues if not any(says(other, clue) for other in earlier)), clues[0])

    def _word_text(self, seat: str) -> str:
        word = self.pair.words[self.places[seat]]
        if not self._is_full:
            return f"{word}{' clue?' if seat == self.seats[0] else ''}"
        return f"Your word: {word}.{' Your clue?' if seat == self.seats[0] else ''}"

    def _clue(self, seat: str, message: Message) -> tuple[str | None, str]:
        """The clue of a reply's last line, None for one that breaks the rules, and the rule that it breaks."""
        line = last_line(final_text(message))
        if (label := _LABEL.match(line)) and line[label.end() :].strip():
            line = line[label.end() :]
        clue = _SPACES.sub(" ", line.replace('"', "")).strip(" '`*_")
        words = clue.split()
        own = self.pair.words[self.places[seat]]
        if not words:
            return None, "Your reply has no clue."
        if len(words) > MAX_WORDS or len(clue) > MAX_CLUE:
            size = f"{count(len(words), 'word')} and {count(len(clue), 'character')}"
            return None, f"Your clue has {size}; {MAX_WORDS} words and {MAX_CLUE} characters are the most."
        return (None, "Your clue says your word.") if says_word(clue, own) else (clue, "")

    def _vote(self, seat: str, message: Message) -> str | None:
        names = {name: name for name in self.others(seat)}
        answer = plain_answer(last_line(final_text(message))).lower()
        return names.get(answer) or find_choice(final_text(message), names)

    def _count(self, votes: Mapping[str, str | None]) -> Round:
        invalid = [seat for seat, vote in votes.items() if vote is None]
        self.faulty |= set(invalid)
        counts = Counter(vote for vote in votes.values() if vote is not None)
        most = max(counts.values(), default=0)
        is_found = [seat for seat, number in counts.items() if number == most] == [self.odd_seat]
        success = {seat: (seat == self.odd_seat) != is_found and seat not in self.faulty for seat in self.seats}
        result = f"{self.odd_seat} had the odd word and was {'' if is_found else 'not '}found."
        table = " ".join(f"{seat} votes for {vote or 'no one'}." for seat, vote in votes.items())
        common, odd = (self.pair.words[self.places[seat]] for seat in (*self.others(self.odd_seat)[:1], self.odd_seat))
        result += f" The common word was {common}, the odd word {odd}."
        penalty = "You have given an invalid clue or vote, so you do not succeed."
        ends = {seat: f"{table}\n{result}" + f"\n{penalty}" * (seat in self.faulty) for seat in self.seats}
        texts = {seat: (user(end),) for seat, end in ends.items()} if self._is_full else {}
        rewards = {seat: float(is_winner) for seat, is_winner in success.items()}
        return Round(texts, rewards, success=success, invalid=invalid)

    def _task(self, number: int) -> Task:
        number, odd = divmod(number, len(self.seats))
        pair, word = divmod(number, 2)
        return Task("", metadata={"pair": pair, "word": word, "odd": self.seats[odd]})


def says_word(clue: str, word: str) -> bool:
    """Whether a clue has the word or a form of it, also in pieces, backwards, or in letters that look like its own."""
    forms = {f"{word}{ending}" for ending in _ENDINGS}
    if word.endswith("y"):
        forms.add(f"{word[:-1]}ies")
    if word.endswith("e"):
        forms.add(f"{word[:-1]}ing")
    return any(_has_form(parts, word, forms) for parts in spellings(clue))


def _has_form(parts: Sequence[str], word: str, forms: Set[str]) -> bool:
    """Whether a form is one of `parts`, a row of them, or the single letters among them; in either direction."""
    letters = "".join(part for part in parts if len(part) == 1)
    rows = _rows(parts, max(map(len, forms)))
    return word in letters or word[::-1] in letters or any(row in forms or row[::-1] in forms for row in rows)


def _rows(parts: Sequence[str], longest: int) -> Iterator[str]:
    """What each row of neighbours makes as one word of at most `longest` letters, but for words that mean another."""
    for start in range(len(parts)):
        for number, row in enumerate(accumulate(parts[start:]), start + 1):
            if len(row) > longest:
                break
            if tuple(parts[start:number]) not in _ORDINARY:
                yield row


def says(clue: str, known: str) -> bool:
    """Whether a clue has the words of a known one in a row, whatever their case and punctuation."""
    words, phrase = (" ".join(_WORD.findall(text.lower())) for text in (clue, known))
    return f" {phrase} " in f" {words} "


def misfit(clue: str, fitting: Sequence[str], alien: Sequence[str]) -> float:
    """Return how little a clue fits a word: 1 with one of `alien` or no clue, 0 with one of `fitting`, else half."""
    if clue == SILENCE or any(says(clue, entry) for entry in alien):
        return 1.0
    return 0.0 if any(says(clue, entry) for entry in fitting) else UNKNOWN


def _pick(rng: np.random.Generator, items: Sequence[str]) -> str:
    return items[int(rng.integers(len(items)))]
