"""Which groups are too old to be trained on, where a schedule gives such groups up."""

from __future__ import annotations

from rl.records import Ticket
from rl.schedule import Schedule
from rl.train.progress import Progress, is_usable


def gives_up(schedule: Schedule) -> bool:
    """Whether groups that are older than the schedule allows are given up, and not masked or used all the same."""
    return schedule.max_lag is not None and schedule.stale in ("requeue", "drop")


def is_too_old(ticket: Ticket, version: int, schedule: Schedule) -> bool:
    """Whether a group is older than the schedule allows for the update that begins with the weights `version`."""
    return schedule.max_lag is not None and version - ticket.version > schedule.max_lag


class AgeCheck:
    """Finds groups that wait and are too old, looking at each of them once for each version of the weights."""

    def __init__(self) -> None:
        """Look at all that wait the first time."""
        self._new: list[int] = []  # tickets that have ended since the last look
        self._version = -1  # of the weights at the last look

    def add(self, number: int) -> None:
        """Note that a ticket has ended."""
        self._new.append(number)

    def find(self, progress: Progress, schedule: Schedule) -> list[Ticket]:
        """Return the tickets that gave something to train on, have become too old, and were not returned before."""
        numbers = self._new if self._version == progress.update else list(progress.ended)
        self._new, self._version = [], progress.update
        if not gives_up(schedule):
            return []
        usable = [of_ticket[0][0].ticket for n in numbers if is_usable(of_ticket := progress.ended.get(n, []))]
        return [ticket for ticket in usable if is_too_old(ticket, progress.update, schedule)]
