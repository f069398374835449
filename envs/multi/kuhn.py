"""Kuhn poker for two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from envs.episodes.guide import Guide, count, listing
from envs.multi.turn_game import INVALID_RULE, TurnGame
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, user

CARDS = "JQK"
NAMES = {"J": "jack", "Q": "queen", "K": "king"}
DEALS = tuple("".join(deal) for deal in permutations(CARDS, 2))
CODES = {"check": "p", "fold": "p", "bet": "b", "call": "b"}
POKER_SYNONYMS = {
    **{form: "check" for form in ("checks", "checking", "checked")},
    **{form: "bet" for form in ("bets", "betting")},
    **{form: "call" for form in ("calls", "calling", "called")},
    **{form: "fold" for form in ("folds", "folding", "folded")},
    **{form: "raise" for form in ("raises", "raising", "reraise", "re-raise")},
}
VERBS = {"check": "checks", "bet": "bets", "fold": "folds", "call": "calls"}


class Kuhn(TurnGame):
    """Kuhn poker: one card each of jack, queen and king, an ante of one chip, one bet of one chip.

    Observation: one user message with the seat's own card and what has been bet so far.
    Action: `check` or `bet`; after a bet `call` or `fold`.
    Reward: the chips won, from -2 to 2, at the end of the hand.
    Episode end: terminated by a fold or a showdown, or by two replies in a row without a legal word, which fold.
    Seats: `player_0` speaks first, `player_1`. Opponents: `equilibrium:alpha=0.0` besides the common ones.
    Splits: a task is a deal with a number; the six deals are equally frequent.
    State: both cards and the betting. Known value: player_0 loses 1/18 chip a hand, if both play perfectly.
    Source and licence: H. W. Kuhn, A simplified two-person poker (1950); own code. Version history: v0.
    """

    max_turns = 6
    forfeiting = "folds"
    max_return = 2.0
    players = {"equilibrium": "equilibrium"}  # noqa: RUF012

    @property
    def deals(self) -> Mapping[str, float]:
        """Probability of each deal: the cards of the two seats."""
        return dict.fromkeys(DEALS, 1 / len(DEALS))

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the deals, each in many tasks."""
        return enumerated(split, 6000, self._deal, key="multi/Kuhn-v0")

    def begin(self) -> None:
        """Deal the cards."""
        self.cards = dict(zip(self.seats, self.task.metadata["deal"], strict=True))
        self.history = ""
        self.words: list[tuple[str, str]] = []
        self.mover = self.seats[0]

    def legal(self) -> Mapping[str, str]:
        """Return the two words that are possible now."""
        words = ("call", "fold") if self.history.endswith("b") else ("check", "bet")
        return {word: word for word in words}

    def synonyms(self) -> Mapping[str, str]:
        """Return other forms of the words, and `pass`, which is to check or, facing a bet, to fold."""
        return POKER_SYNONYMS | {"pass": "fold" if "fold" in self.legal() else "check"}

    def play(self, move: str) -> None:
        """Check, bet, call or fold."""
        self.history += CODES[move]
        self.words = [*self.words, (self.mover, move)]
        self.mover = self.others(self.mover)[0]

    def payoff(self) -> float | None:
        """Return the chips that the first seat has won when the hand is over."""
        if self.history.endswith("bp"):
            return 1.0 if self.mover == self.seats[0] else -1.0  # the one who folded has moved last
        if self.history[-2:] not in ("pp", "bb"):
            return None
        pot = 2.0 if self.history.endswith("bb") else 1.0
        first, second = (CARDS.index(self.cards[seat]) for seat in self.seats)
        return pot if first > second else -pot

    def forfeit(self, seat: str) -> float:
        """Fold: the seat loses its ante. No seat that is to move has more in the pot."""
        return -1.0 if seat == self.seats[0] else 1.0

    def information(self, seat: str) -> str:
        """Return what the seat knows, in few signs: its card, then `p` for each check or fold and `b` for a bet."""
        return self.cards[seat] + self.history

    def describe(self, seat: str) -> str:
        """Show the seat's card and the betting so far."""
        legal = [*self.legal()]
        if self.style != "full":
            return f"{self.information(seat)} {'|'.join(legal)}?"
        lines = (f"Your card: {NAMES[self.cards[seat]]}.", self._betting(seat), f"You may {listing(legal, 'or')}.")
        return "\n".join(filter(None, lines))

    def result_messages(self) -> Mapping[str, Sequence[Message]]:
        """Show both cards after a showdown."""
        if not self._is_showdown():
            return {}
        cards = ", ".join(f"{seat} had the {NAMES[self.cards[seat]]}" for seat in self.seats)
        return {seat: (user(f"Showdown: {cards}."),) for seat in self.seats}

    def result(self, seat: str, gain: float) -> str:
        """Say who has folded, or show both cards, and what the seat wins."""
        (other,) = self.others(seat)
        lines = [f"Your card: {NAMES[self.cards[seat]]}.", self._betting(seat)]
        if self._is_showdown():
            cards = f"You had the {NAMES[self.cards[seat]]}, the other player had the {NAMES[self.cards[other]]}."
            lines.append(f"Showdown: {cards}")
        return "\n".join(filter(None, (*lines, chips_text(gain))))

    def _is_showdown(self) -> bool:
        return self.history[-2:] in ("pp", "bb")

    def guide(self, seat: str) -> Guide:
        """Say how a hand is played."""
        order = "first" if seat == self.seats[0] else "second"
        return Guide(
            goal=(
                f"You play one hand of a small poker game, Kuhn poker, against another player, and speak {order}. "
                "You succeed if you win chips. Your score is the number of chips that you win or lose."
            ),
            rules=(
                "There are three cards: jack, queen and king; the king is the highest and the jack the lowest. Each "
                "player has put one chip into the pot and has been dealt one card, which the other cannot see; the "
                "third card is not used.\n\n"
                "The first player checks or bets one more chip. After a check the second checks or bets. Whoever "
                "faces a bet calls, which also costs one chip, or folds. A fold ends the hand, and the other player "
                "takes the pot. After two checks or a call the cards are shown, and the higher one takes the pot. So a "
                "hand wins or loses one chip, and two chips after a bet that is called."
            ),
            reply="Reply with one word: check or bet; when you face a bet, call or fold.",
            noun="word",
            example=next(iter(self.legal())),
            ending="The episode ends with the hand.",
            invalid=INVALID_RULE.format(noun="word", forfeit="folds, and you lose the chip in the pot"),
            heading="Your hand:",
        )

    def secrets(self, seat: str) -> Sequence[str]:
        """Return the line with the seat's card."""
        return (f"Your card: {NAMES[self.cards[seat]]}.",)

    def state(self) -> str:
        """Return the cards and the betting."""
        return f"{''.join(self.cards.values())} {self.history}"

    def oracle(self, seat: str) -> Message:
        """Return the best move of one who sees both cards: bet and call with the higher one only."""
        own, other = (CARDS.index(self.cards[name]) for name in (seat, *self.others(seat)))
        strong, weak = ("call", "fold") if self.history.endswith("b") else ("bet", "check")
        return assistant(strong if own > other else weak)

    def equilibrium(self, seat: str, rng: np.random.Generator, *, alpha: float = 0.0) -> Message:
        """Play an equilibrium of Kuhn's family; `alpha`, from 0 to 1/3, is how often the first seat bets the jack."""
        strong, weak = ("call", "fold") if self.history.endswith("b") else ("bet", "check")
        return assistant(strong if rng.random() < bet_probability(self.information(seat), alpha) else weak)

    def _betting(self, seat: str) -> str:
        """What both have done, in sentences."""
        return " ".join(
            f"{'You' if who == seat else 'The other player'} {self._verb(who == seat, word)}."
            for who, word in self.words
        )

    @staticmethod
    def _verb(is_own: bool, word: str) -> str:
        return word if is_own else VERBS[word]

    @staticmethod
    def _deal(number: int) -> Task:
        return Task("", metadata={"deal": DEALS[number % len(DEALS)], "number": number // len(DEALS)})


def chips_text(gain: float) -> str:
    """Say what a hand has won: "You lose 2 chips."."""
    if not gain:
        return "The pot is shared: you win and lose nothing."
    return f"You {'win' if gain > 0 else 'lose'} {count(abs(int(gain)), 'chip')}."


def bet_probability(information: str, alpha: float) -> float:
    """Return how often an equilibrium player bets or calls (Kuhn 1950).

    Args:
        information: The player's card and the moves so far, `p` for check and `b` for bet: `K`, `Jp`, `Qb`, `Qpb`.
        alpha: Parameter of the family of equilibria, from 0 to 1/3.

    Raises:
        ValueError: `alpha` is outside its range.
    """
    if not 0 <= alpha <= 1 / 3:
        raise ValueError(f"alpha {alpha} is outside 0..1/3")
    first_seat = {"J": alpha, "Q": 0.0, "K": 3 * alpha, "Jpb": 0.0, "Qpb": alpha + 1 / 3, "Kpb": 1.0}
    second_seat = {"Jp": 1 / 3, "Qp": 0.0, "Kp": 1.0, "Jb": 0.0, "Qb": 1 / 3, "Kb": 1.0}
    return (first_seat | second_seat)[information]
