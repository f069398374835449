"""Kuhn poker to imitate at the start of self-play: a teacher who tells the cards apart and plays every word."""

from __future__ import annotations

from envs.multi.kuhn import Kuhn
from envs.types import Message


class SoftKuhn(Kuhn):
    """Kuhn poker whose oracle plays a random word half of the time.

    The oracle of Kuhn poker bets and calls exactly with the higher of both cards. So a seat that sees its own card only
    and imitates this one learns to bet and call with the jack in 1 of 4 hands, with the queen in 2 and the king in 3.
    """

    def oracle(self, seat: str) -> Message:
        """Return the oracle's word, or any."""
        return self.random(seat, self.np_random) if self.np_random.random() < 0.5 else super().oracle(seat)
