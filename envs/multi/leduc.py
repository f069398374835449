"""Leduc hold'em for two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import permutations

from envs.episodes.guide import Guide, count, listing
from envs.multi.kuhn import POKER_SYNONYMS, chips_text
from envs.multi.turn_game import INVALID_RULE, TurnGame
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, user

RANKS = "JQK"
NAMES = {"J": "jack", "Q": "queen", "K": "king"}
DEALS = tuple("".join(cards) for cards in permutations(RANKS * 2, 3))  # card of each seat, common card: 120
CODES = {"check": "c", "call": "c", "bet": "r", "raise": "r", "fold": "f"}
VERBS = {"check": "checks", "bet": "bets", "fold": "folds", "call": "calls", "raise": "raises"}
BETS = (2, 4)  # chips of a bet or raise in each round
MOST_BETS = 2  # bets and raises in one round


class Leduc(TurnGame):
    """Leduc hold'em: two each of jack, queen and king, one card a seat and one for both, two rounds of betting.

    Observation: one user message with the seat's card, the common card in the second round, the betting and the pot.
    Action: `check` or `bet`; after a bet `fold`, `call` or, once in a round, `raise`.
    Reward: the chips won, from -13 to 13, at the end of the hand; 0 for a pot that is shared.
    Episode end: terminated by a fold or a showdown, or by two replies in a row without a legal word, which fold.
    Seats: `player_0` speaks first in both rounds, `player_1`.
    Splits: a task is a deal with a number; the 120 deals of six cards are equally frequent.
    State: all cards and the betting. Known value: `player_0` loses 0.078125 chips a hand if both play at random.
    Source and licence: F. Southey et al., Bayes' bluff: opponent modelling in poker (UAI 2005); own code.
    Version history: v0.
    """

    max_turns = 8
    forfeiting = "folds"
    max_return = 13.0

    @property
    def deals(self) -> Mapping[str, float]:
        """Probability of each deal: the ranks of the two seats' cards and of the common card."""
        return {deal: number / len(DEALS) for deal, number in Counter(DEALS).items()}

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the deals, each in many tasks."""
        return enumerated(split, 6000, self._deal, key="multi/Leduc-v0")

    def begin(self) -> None:
        """Deal the cards and take the antes."""
        deal = self.task.metadata["deal"]
        self.cards, self.common_card = dict(zip(self.seats, deal[:2], strict=True)), deal[2]
        self.betting: list[str] = [""]  # codes of the moves of each round
        self.words: list[list[tuple[str, str]]] = [[]]
        self.chips = dict.fromkeys(self.seats, 1)
        self.mover = self.seats[0]

    def legal(self) -> Mapping[str, str]:
        """Return the words that are possible now."""
        bets = self.betting[-1].count("r")
        words = ("check", "bet") if not bets else ("fold", "call", "raise") if bets < MOST_BETS else ("fold", "call")
        return {word: word for word in words}

    def synonyms(self) -> Mapping[str, str]:
        """Return other forms of the words, and `pass`, which is to check or, facing a bet, to fold."""
        return POKER_SYNONYMS | {"pass": "fold" if "fold" in self.legal() else "check"}

    def play(self, move: str) -> None:
        """Make a move; a check or call that answers a move ends the round."""
        (other,) = self.others(self.mover)
        if move in ("call", "bet", "raise"):
            self.chips[self.mover] = self.chips[other]
        if move in ("bet", "raise"):
            self.chips[self.mover] += BETS[len(self.betting) - 1]
        self.betting[-1] += CODES[move]
        self.words[-1].append((self.mover, move))
        self.mover = other
        if len(self.betting) == 1 and self._is_round_over():
            self.betting.append("")
            self.words.append([])
            self.mover = self.seats[0]

    def payoff(self) -> float | None:
        """Return the chips that the first seat has won when the hand is over."""
        first, second = self.seats
        if self.betting[-1].endswith("f"):
            return float(self.chips[second] if self.mover == first else -self.chips[first])  # the other one has folded
        if not self._is_round_over():
            return None
        strengths = [self._strength(seat) for seat in self.seats]
        if strengths[0] == strengths[1]:
            return 0.0
        return float(self.chips[first] if strengths[0] > strengths[1] else -self.chips[first])

    def forfeit(self, seat: str) -> float:
        """Fold: the seat loses what it has put into the pot."""
        return float(-self.chips[seat] if seat == self.seats[0] else self.chips[seat])

    def information(self, seat: str) -> str:
        """Return what the seat knows, in few signs: its card, then the betting, with the common card: `Qcrc/K/c`."""
        first, *second = self.betting
        return f"{self.cards[seat]}{first}" + "".join(f"/{self.common_card}/{moves}" for moves in second)

    def describe(self, seat: str) -> str:
        """Show the seat's card, the common card, the betting and the pot."""
        legal = [*self.legal()]
        if self.style != "full":
            return f"{self.information(seat)} {'|'.join(legal)}?"
        lines = self._known_lines(seat)
        (other,) = self.others(seat)
        lines.append(
            f"Chips in the pot: {self.chips[seat]} of yours, {self.chips[other]} of the other player.\n"
            f"You may {listing(legal, 'or')}."
        )
        return "\n".join(lines)

    def result_messages(self) -> Mapping[str, Sequence[Message]]:
        """Show both cards after a showdown."""
        if not self._is_showdown():
            return {}
        cards = ", ".join(f"{seat} had the {NAMES[self.cards[seat]]}" for seat in self.seats)
        return {
            seat: (user(f"Showdown: {cards}; the common card was the {NAMES[self.common_card]}."),)
            for seat in self.seats
        }

    def result(self, seat: str, gain: float) -> str:
        """Say who has folded, or show both cards, and what the seat wins."""
        lines = self._known_lines(seat)
        if self._is_showdown():
            (other,) = self.others(seat)
            own, theirs = NAMES[self.cards[seat]], NAMES[self.cards[other]]
            lines.append(f"Showdown: you had the {own}, the other player had the {theirs}.")
        return "\n".join([*lines, chips_text(gain)])

    def _is_showdown(self) -> bool:
        return len(self.betting) > 1 and self._is_round_over() and not self.betting[-1].endswith("f")

    def _known_lines(self, seat: str) -> list[str]:
        """The seat's card, the common card and the betting."""
        lines = [f"Your card: {NAMES[self.cards[seat]]}."]
        if len(self.betting) > 1:
            lines.append(f"The common card: {NAMES[self.common_card]}.")
        for title, words in zip(("First round", "Second round"), self.words, strict=False):
            if words:
                said = (f"{'you' if who == seat else 'the other player'} {_verb(who == seat, w)}" for who, w in words)
                lines.append(f"{title}: {', '.join(said)}.")
        return lines

    def guide(self, seat: str) -> Guide:
        """Say how a hand is played."""
        order = "first" if seat == self.seats[0] else "second"
        return Guide(
            goal=(
                f"You play one hand of a small poker game, Leduc hold'em, against another player, and speak "
                f"{order} in each round. You succeed if you win chips. Your score is the number of chips that you win "
                "or lose."
            ),
            rules=(
                "There are six cards: two jacks, two queens and two kings; the king is the highest and the jack the "
                "lowest. Each player has put one chip into the pot and has been dealt one card, which the other cannot "
                "see. After the first round of betting one common card is laid open for both, and a second round "
                "follows.\n\n"
                "In a round the first player checks or bets, and so does the second after a check; two checks end the "
                "round. Whoever faces a bet folds, calls, which puts in as much as the other has, or raises, which "
                "calls and puts in another bet. A raise cannot be raised again. A call ends the round. A bet or a "
                f"raise is {count(BETS[0], 'chip')} in the first round and {BETS[1]} in the second.\n\n"
                "A fold ends the hand, and the other player takes the pot. After the second round the cards are shown: "
                "a card of the same rank as the common card wins; otherwise the higher card wins; two equal cards "
                "share the pot."
            ),
            reply="Reply with one word: check or bet; when you face a bet, fold, call or, if it is offered, raise.",
            noun="word",
            example=next(iter(self.legal())),
            ending="The episode ends with the hand.",
            invalid=INVALID_RULE.format(noun="word", forfeit="folds, and you lose your chips in the pot"),
            heading="Your hand:",
        )

    def secrets(self, seat: str) -> Sequence[str]:
        """Return the line with the seat's card."""
        return (f"Your card: {NAMES[self.cards[seat]]}.",)

    def state(self) -> str:
        """Return the cards and the betting."""
        return f"{''.join(self.cards.values())}{self.common_card} {'/'.join(self.betting)}"

    def oracle(self, seat: str) -> Message:
        """Return the best move of one who sees all cards, against a player who picks legal words at random."""
        return assistant(max(self.legal(), key=lambda word: self._value_after(word, seat)))

    def _value_after(self, move: str, seat: str) -> float:
        """What `seat` wins on average after a move, if it plays on as the oracle and the other one at random."""
        trial = copy(self)
        trial.betting, trial.chips, trial.words = [*self.betting], {**self.chips}, [[*words] for words in self.words]
        trial.play(move)
        payoff = trial.payoff()
        if payoff is not None:
            return payoff if seat == self.seats[0] else -payoff
        values = [trial._value_after(word, seat) for word in trial.legal()]
        return max(values) if trial.mover == seat else sum(values) / len(values)

    def _strength(self, seat: str) -> tuple[bool, int]:
        card = self.cards[seat]
        return card == self.common_card, RANKS.index(card)

    def _is_round_over(self) -> bool:
        moves = self.betting[-1]
        return len(moves) > 1 and moves.endswith("c")

    @staticmethod
    def _deal(number: int) -> Task:
        return Task("", metadata={"deal": DEALS[number % len(DEALS)], "number": number})


def _verb(is_own: bool, word: str) -> str:
    return word if is_own else VERBS[word]
