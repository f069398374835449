"""Base class of environments of other projects: one task per seed, and truncation that the other project decides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from envs.env import Env
from envs.episodes.results import read_number
from envs.procedural import digest
from envs.types import Message, Stop, Task

LENGTHS = {"train": 10_000, "val": 200, "test": 200}

Style = Literal["full", "short"]


class ForeignEnv(Env):
    """An environment that another project plays; this class has what all adapters share.

    Its exceptions are infrastructure faults: the episode is retried, never scored. A subclass therefore parses replies
    itself and passes on only what the other project accepts. It sets `is_truncated` in the turn in which the other
    project cuts the episode short.

    Args:
        name: What stands behind the scheme: an id, or an address.
        style: "full" begins an episode with the rules in sentences and explains invalid replies; "short" does neither,
            for a small model that is trained on the environment.
        **limits: Arguments of `Env`: `max_turns`, `max_seconds`, `render_mode`.
    """

    max_return = math.inf  # the rewards are the other project's

    def __init__(self, name: str, /, *, style: Style = "full", **limits: Any) -> None:
        super().__init__(**limits)
        if style not in ("full", "short"):
            raise ValueError(f"style {style!r} is not one of full, short")
        self.name = name
        self.style = style
        self.is_truncated = False

    def tasks(self, split: str) -> Sequence[Task]:
        """Return one task per seed; the seeds, below 2**31, differ between the splits."""
        return [
            Task(f"{split}/{i}", metadata={"seed": digest(self.name, split, i) >> 33}) for i in range(LENGTHS[split])
        ]

    def oracle(self) -> Iterator[Message]:
        """Other projects ship no oracle. Raises NotImplementedError."""
        raise NotImplementedError(f"{self.name} has no oracle; train it with --cold-start 0")

    def _limit(self) -> Stop | None:
        return super()._limit() or (Stop.TURN_LIMIT if self.is_truncated else None)


def finite_reward(reward: Any, name: str) -> float:
    """Return a reward of the environment `name` as a float.

    Raises RuntimeError, an infrastructure fault, if it is no finite number.
    """
    try:
        number = read_number("the reward", reward)
    except TypeError:
        number = math.nan
    if not math.isfinite(number):
        raise RuntimeError(f"{name} paid the reward {reward!r}, which is no finite number")
    return number
