"""A secret to ask about, with a teacher who shows how evidence is read but not how it is got."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from envs.games.doors.ask import TESTS
from envs.games.doors.doors import Doors
from envs.procedural import digest
from envs.types import Message, assistant

ANSWERS_AT_ONCE = 0.25  # probability of an answer where digits are unknown, for which the teacher is always lucky


class Guesser(Doors):
    """`games/Doors-v0` with `kind=ask` and another oracle, for a start that answers by the evidence and asks at random.

    Its oracle makes tests drawn alike from all seven, useful or idle, and then names the secret, known or not. A model
    that imitates it answers with any number that the evidence allows.
    Arguments: those of `kind=ask`. Source and licence: generated. Version history: v0.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(kind="ask", **arguments)

    def oracle(self) -> Iterator[Message]:
        """Yield random tests until all is known, chance ends them or one turn is left, and then the secret."""
        rng = np.random.default_rng(digest("benchmarks/Guesser-v0", self.task.id, self.world.salt))
        for _ in range(self.turn_limit - 1):
            if "?" not in self.world.key() or rng.random() < ANSWERS_AT_ONCE:
                break
            yield assistant(str(rng.choice(TESTS)))
        yield assistant(str(self.task.answer))
