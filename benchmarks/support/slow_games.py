"""A game whose steps take time, most of them little and a few much, as those of sandboxes, sites and simulators do."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from envs.games.guess_number import GuessNumber
from envs.types import Message, Outcome
from rl.seeds import derive

MEAN_STEP_S = "MEAN_STEP_S"


class SlowGuess(GuessNumber):
    """`games/GuessNumber-v0` with a step of exponentially distributed length, in a thread of its own.

    `most_s` seconds at most. The mean is the environment variable `MEAN_STEP_S`, 0 by default: a cold start, which
    plays one episode after the other, is made without waiting and found in the cache by a run that waits. A step's
    length depends on the task and the turn, not on the policy.
    """

    blocking = True

    def __init__(self, *, most_s: float = 1.5, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.mean_s, self.most_s = float(os.environ.get(MEAN_STEP_S, "0")), most_s

    def reply(self, action: Message) -> Outcome:
        """Take as long as the step takes, then answer."""
        rng = np.random.default_rng(derive(0, self.task.id, self.turns))
        time.sleep(min(float(rng.exponential(self.mean_s)), self.most_s))
        return super().reply(action)
