"""The numbers that control a run's loop, and the error that ends it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rl.schedule import Ending, Schedule
from rl.settings import Settings


class TrainingStopped(Exception):
    """The loop cannot continue, for a reason that the user can remedy. The message says which."""


@dataclass(frozen=True)
class Plan:
    """The numbers that control the loop.

    Attributes:
        groups: Tickets that an update trains on: groups, or with several seats one group for each.
        size: Episodes per group.
        seed: The run's seed.
        total_updates: Updates of the whole run, for the schedule of the learning rate.
        schedule: When groups start and which of them an update takes.
        split: Split of the environment to train on.
        temperature: Sampling temperature of the training episodes.
        ending: When the run ends before it has made all updates.

    """

    groups: int
    size: int
    seed: int
    total_updates: int
    schedule: Schedule = field(default_factory=Schedule)
    split: str = "train"
    temperature: float = 1.0
    ending: Ending = field(default_factory=Ending)

    @classmethod
    def of(cls, s: Settings, updates: int) -> Plan:
        """Return the plan of a run of `updates` updates with these settings."""
        return cls(s.groups, s.size, s.seed, updates, s, temperature=s.temperature, ending=s)

    @property
    def lag(self) -> int:
        """Updates that sampling may be ahead.

        0: a group is sampled with the current weights only, and sampling waits while the learner trains (on-policy). L:
        `(L + 1) * groups` groups are played at a time and sampling continues across updates, so tokens may come from
        weights that are up to L updates old.
        """
        return self.schedule.lag

    @property
    def overlap(self) -> bool:
        """Whether sampling goes on while the learner computes, on a thread of its own; `lag` must be above 0.

        Which weights sample a token then depends on time, so a run does not repeat bit for bit.
        """
        return bool(self.schedule.overlap)

    @property
    def num_spare(self) -> int:
        """Groups that may be open beyond those of `lag + 1` updates."""
        return self.schedule.outstanding(self.groups) - (self.schedule.lag + 1) * self.groups
