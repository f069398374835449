"""What an update takes from the scheduler, and what became of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rl.records import Group


class Claim(NamedTuple):
    """The groups that an update uses up, those among them to train on, and how many tickets these are of."""

    groups: list[Group]
    training_groups: list[Group]
    num_tickets: int


@dataclass
class Counts:
    """What became of tickets that were too old, since the last update."""

    stale: int = 0
    cancelled: int = 0
