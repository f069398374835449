"""The iterated prisoner's dilemma for two, who move at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import check_range
from envs.grading.choice import find_choice
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.procedural import enumerated
from envs.types import Message, Task, assistant, final_text, user

MOVES = ("cooperate", "defect")
SYNONYMS = {
    **dict.fromkeys(("c", "coop", "cooperates", "cooperating", "cooperation", "co-operate"), "cooperate"),
    **dict.fromkeys(("d", "defects", "defecting", "defection", "betray"), "defect"),
}
POINTS = {(0, 0): (3, 3), (0, 1): (0, 5), (1, 0): (5, 0), (1, 1): (1, 1)}
MOST, FAIR = 5, 3  # points of a round at best, and of mutual cooperation


class IteratedDilemma(MultiEnv):
    """The prisoner's dilemma, several rounds with the same other player.

    Observation: one user message a round with what both did, and what it paid.
    Action: `cooperate` or `defect`, both seats at the same time.
    Reward: the points of the round (3 and 3 for cooperation, 1 and 1 for defection, 5 for a defector and 0 for a
    cooperator), divided by five times the number of rounds.
    Episode end: terminated after the last round. Success: three points a round or more, on average.
    Arguments: `length`: number of rounds, which the players know.
    Seats: `player_0` and `player_1`, alike. A reply that names no move counts as cooperation and pays nothing.
    Opponents: `tit_for_tat` (the default), `grim`, `cooperator`, `defector` besides the common ones.
    Splits: all games are the same; tasks differ in their number only, which stands for a seed.
    State: all moves so far. Known value: with a known end, the only equilibrium is to defect always.
    Source and licence: R. Axelrod, The Evolution of Cooperation (1984); own code. Version history: v0.
    """

    max_return = 1.0
    default_opponent = "tit_for_tat"
    players = {name: name for name in ("tit_for_tat", "grim", "cooperator", "defector")}  # noqa: RUF012

    def __init__(self, *, length: int = 5, max_turns: int | None = None, max_cycles: int | None = None, **limits: Any):
        length = check_range("length", length if max_cycles is None else max_cycles, range(1, 101))
        super().__init__(max_turns=length if max_turns is None else max_turns, **limits)
        self.length = length

    def tasks(self, split: str) -> Sequence[Task]:
        """Return numbered games."""
        return enumerated(split, 3000, lambda i: Task("", metadata={"game": i}), key="multi/IteratedDilemma-v0")

    def start(self) -> Round:
        """Ask both seats for their first move."""
        self.moves: list[tuple[int, int]] = []
        self.points = dict.fromkeys(self.seats, 0)
        first = f"Round 1 of {self.length}." if self.style == "full" else f"1/{self.length}"
        return Round({seat: (user(first),) for seat in self.seats}, to_move=self.seats)

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Play one round. A reply that names no move counts as cooperation and pays nothing."""
        names = {word: word for word in MOVES}
        choices = {seat: find_choice(final_text(replies[seat]), names, SYNONYMS) for seat in self.seats}
        invalid = [seat for seat, choice in choices.items() if choice is None]
        first, second = (MOVES.index(choices[seat] or MOVES[0]) for seat in self.seats)
        self.moves.append((first, second))
        payment = dict(zip(self.seats, POINTS[first, second], strict=True)) | dict.fromkeys(invalid, 0)
        for seat in self.seats:
            self.points[seat] += payment[seat]
        rewards = {seat: payment[seat] / (MOST * self.length) for seat in self.seats}
        is_over = len(self.moves) == self.length
        messages = {seat: (user(self._tell(seat, payment[seat], seat in invalid, is_over)),) for seat in self.seats}
        success = {seat: self.points[seat] >= FAIR * self.length for seat in self.seats}
        return Round(messages, rewards, () if is_over else self.seats, success=success, invalid=invalid)

    def guide(self, seat: str) -> Guide:
        """Say what each pair of moves pays."""
        return Guide(
            goal=(
                f"You play {self.length} rounds of a game with another player. In each round both choose at the same "
                "time: cooperate or defect. You want as many points as possible, and you succeed if you have "
                f"at least {FAIR} points for each round, {FAIR * self.length} in all, at the end."
            ),
            rules=(
                "If both cooperate, each gets 3 points. If both defect, each gets 1 point. If one defects and the "
                "other cooperates, the one who defects gets 5 points and the other gets none. After each round you "
                "learn what the other chose. Your reward for a round is its points divided by "
                f"{MOST * self.length}, the most that {self.length} rounds can give."
            ),
            reply="Reply with one word: cooperate or defect.",
            noun="word",
            example="cooperate",
            ending=f"The episode ends after round {self.length}.",
            invalid="A reply that names no move, or both, counts as cooperate for the other and pays you nothing.",
            heading="The game begins:",
        )

    def state(self) -> str:
        """Return all moves so far."""
        return " ".join(f"{'cd'[first]}{'cd'[second]}" for first, second in self.moves) or "start"

    def oracle(self, seat: str) -> Message:
        """Cooperate until the last round, then defect: the best reply to tit for tat."""
        return assistant(MOVES[len(self.moves) + 1 == self.length])

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Return one of the two moves, equally likely."""
        return assistant(MOVES[int(rng.integers(2))])

    def tit_for_tat(self, seat: str, rng: np.random.Generator) -> Message:
        """Cooperate first, then do what the other did last."""
        theirs = self._moves_of_other(seat)
        return assistant(MOVES[theirs[-1] if theirs else 0])

    def grim(self, seat: str, rng: np.random.Generator) -> Message:
        """Cooperate until the other defects, then always defect."""
        return assistant(MOVES[any(self._moves_of_other(seat))])

    def cooperator(self, seat: str, rng: np.random.Generator) -> Message:
        """Always cooperate."""
        return assistant("cooperate")

    def defector(self, seat: str, rng: np.random.Generator) -> Message:
        """Always defect."""
        return assistant("defect")

    def _moves_of_other(self, seat: str) -> list[int]:
        return [pair[1 - self.seats.index(seat)] for pair in self.moves]

    def _tell(self, seat: str, payment: int, is_invalid: bool, is_over: bool) -> str:
        own, theirs = (self.moves[-1][i] for i in (self.seats.index(seat), 1 - self.seats.index(seat)))
        following = "" if is_over else f"{len(self.moves) + 1}/{self.length}"
        if self.style != "full":
            return f"{'cd'[own]}{'cd'[theirs]} {following}".strip()
        choice = (
            "Your reply did not name one move: that counts as cooperate" if is_invalid else f"You chose {MOVES[own]}"
        )
        text = (
            f"{choice}; the other player chose {MOVES[theirs]}. You get {payment} points, {self.points[seat]} so far."
        )
        return text if is_over else f"{text}\nRound {len(self.moves) + 1} of {self.length}."
