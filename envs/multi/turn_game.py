"""Base class of games of two that move in turn: each move is a word, and one wins what the other loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envs.grading.choice import find_choice
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.types import Message, Messages, assistant, final_text, user

SECOND_FAULT = "The game has not changed. A second invalid reply in a row {forfeit}."
FORFEITS = "{whose} second invalid reply in a row {forfeit}."
MAX_INVALID = 2  # invalid replies in a row that forfeit the game
INVALID_RULE = (
    "A reply that names no legal {noun}, or several, does not count: you are asked again, once. A second one in a row "
    "{forfeit}."
)


class TurnGame(MultiEnv):
    """A game of two seats that move in turn.

    A subclass defines `tasks`, `begin`, `legal`, `play`, `payoff`, `describe` and `oracle`, and in full style `guide`.
    After `begin` and `play`, `self.mover` is the seat that is to move. The last line of a reply must name exactly one
    of the words of `legal`. After two other replies in a row the seat forfeits (`forfeit`).
    """

    mover: str
    forfeiting: str = "loses the game"  # what a second invalid reply in a row does

    def begin(self) -> None:
        """Set up the game of `self.task` and `self.mover`."""
        raise NotImplementedError(f"{type(self).__name__} must define begin()")

    def legal(self) -> Mapping[str, Any]:
        """Return the moves of `self.mover`: words in lower case, each with what `play` takes for it."""
        raise NotImplementedError(f"{type(self).__name__} must define legal()")

    def play(self, move: Any) -> None:
        """Play a move of `self.mover` and set the next `self.mover`."""
        raise NotImplementedError(f"{type(self).__name__} must define play(move)")

    def payoff(self) -> float | None:
        """Return what the first seat has won, negative for a loss; None while the game goes on."""
        raise NotImplementedError(f"{type(self).__name__} must define payoff()")

    def describe(self, seat: str) -> str:
        """Return the situation as `seat` may see it."""
        raise NotImplementedError(f"{type(self).__name__} must define describe(seat)")

    def forfeit(self, seat: str) -> float:
        """Return what the first seat wins when `seat` forfeits. Default: 1 or -1."""
        return -1.0 if seat == self.seats[0] else 1.0

    def read_move(self, message: Message) -> str | None:
        """Return the word of `legal` that a reply names; None for none or several. Default: in its last line."""
        legal = self.legal()
        synonyms = {name: word for name, word in self.synonyms().items() if word in legal}
        return find_choice(final_text(message), {word: word for word in legal}, synonyms)

    def synonyms(self) -> Mapping[str, str]:
        """Return other names of legal words, which count where a reply names none of the words. Default: none."""
        return {}

    def fault(self, message: Message) -> str:
        """Return a sentence on what is wrong with a reply of `self.mover` in which `read_move` finds no move."""
        return f"Your reply does not name exactly one of the legal moves: {', '.join(self.legal())}."

    def result_messages(self) -> Mapping[str, Sequence[Message]]:
        """Return what the seats read in short style when the game is over. Default: nothing."""
        return {}

    def result(self, seat: str, gain: float) -> str:
        """Return sentences on how the game has ended for `seat`, which has won `gain`. Default: who has won."""
        if not gain:
            return "The game is a draw."
        return "You have won the game." if gain > 0 else "You have lost the game."

    def start(self) -> Round:
        """Begin the game and show it to the seat that moves first."""
        self.invalid_replies = 0
        self.begin()
        return Round({self.mover: (user(self.describe(self.mover)),)}, to_move=(self.mover,))

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Play the move that the reply names; ask again, once, for one that names none."""
        ((seat, message),) = replies.items()
        legal = self.legal()
        word = self.read_move(message)
        if word is None:
            self.invalid_replies += 1
            if self.invalid_replies >= MAX_INVALID:
                return self._finish(self.forfeit(seat), loser=seat)
            fault = f"{self.fault(message)} {SECOND_FAULT.format(forfeit=self.forfeiting)}"
            table = self.describe(seat)
            text = self.correction(seat, fault, table, short=f"{'|'.join(legal)}?\n{table}")
            return Round({seat: (user(text),)}, to_move=(seat,), invalid=(seat,))
        self.invalid_replies = 0
        self.play(legal[word])
        payoff = self.payoff()
        if payoff is not None:
            return self._finish(payoff)
        return Round({self.mover: (user(self.describe(self.mover)),)}, to_move=(self.mover,))

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Return a legal move, each equally likely."""
        words = [*self.legal()]
        return assistant(words[int(rng.integers(len(words)))])

    def _finish(self, payoff: float, loser: str = "") -> Round:
        """The end of the game. `payoff` is what the first seat wins; `loser` has given too many invalid replies."""
        first, second = self.seats
        rewards = {first: float(payoff), second: -float(payoff)}
        success = {seat: reward > 0 for seat, reward in rewards.items()}
        messages: dict[str, Messages]
        if self.style == "full":
            texts = {seat: self.result(seat, rewards[seat]) for seat in self.seats}
            for seat in self.seats if loser else ():
                whose = "Your" if seat == loser else "The other player's"
                texts[seat] = f"{FORFEITS.format(whose=whose, forfeit=self.forfeiting)}\n{texts[seat]}"
            messages = {seat: (user(words),) for seat, words in texts.items()}
        else:
            messages = {seat: tuple(result) for seat, result in self.result_messages().items()}
        return Round(messages, rewards, success=success, invalid=(loser,) if loser else ())
