"""Which tasks, and when the whole environment, are given up because their calls take too long."""

from __future__ import annotations

from collections import Counter
from math import inf
from time import monotonic

from envs.watchdog import Overrun
from rl.records import Ticket

MAX_OF_GROUP = 2  # timeouts after which a group is played no further
MAX_IN_A_ROW = 5  # timeouts in a row, without an episode that ended, after which nothing is played any more
MAX_AT_FIRST = 3  # the same as long as no episode has ended at all


class Hang(BaseException):
    """The environment is given up: nothing but timeouts for some time. The message is one line about the last one.

    Like a keyboard interrupt it ends all episodes, so it is no `Exception`, which would end a single attempt.
    """


class Timeouts:
    """Counts the timeouts of a runner. Calls that were waiting at the same time count as one, as in an outage."""

    def __init__(self) -> None:
        self._of_group: Counter[int] = Counter()  # by the number of the ticket
        self._last: dict[int, Overrun] = {}  # the same
        self._in_a_row = 0
        self._last_time = -inf
        self._hang: Hang | None = None
        self.has_finished = False  # an episode has ended in time

    def check(self, ticket: Ticket | None) -> None:
        """Raise what a call for `ticket` must not be made for: `Hang`, or `Overrun` if its group is given up."""
        if self._hang:
            raise self._hang
        if ticket and self._of_group.get(ticket.number, 0) >= MAX_OF_GROUP:
            raise Overrun(f"given up after {MAX_OF_GROUP} timeouts: {self._last[ticket.number]}")

    def record(self, error: Overrun, ticket: Ticket | None) -> None:
        """Count a timeout. Raises `Hang` if it is one too many."""
        if ticket:
            self._of_group[ticket.number] += 1
            self._last[ticket.number] = error
        if error.start < self._last_time:
            return
        self._last_time = monotonic()
        self._in_a_row += 1
        if self._in_a_row >= (MAX_IN_A_ROW if self.has_finished else MAX_AT_FIRST):
            self._hang = Hang(f"{error}, the last of {self._in_a_row} timeouts in a row")
            raise self._hang from error

    def finish(self) -> None:
        """Note that an episode has ended in time."""
        self._in_a_row, self.has_finished = 0, True


class MemberTimeouts(Timeouts):
    """The timeouts of one member of a group, which is given up by its own alone; when all is, `common` decides."""

    def __init__(self, common: Timeouts) -> None:
        """Take the timeouts of the runner."""
        super().__init__()
        self.common, self.has_finished = common, common.has_finished

    def check(self, ticket: Ticket | None) -> None:
        """Raise what a call of this member must not be made for."""
        self.common.check(None)
        super().check(ticket)

    def record(self, error: Overrun, ticket: Ticket | None) -> None:
        """Count a timeout of this member. Raises `Hang` if it is one too many of all."""
        if ticket:
            self._of_group[ticket.number] += 1
            self._last[ticket.number] = error
        self.common.record(error, None)
        self.has_finished = self.common.has_finished

    def finish(self) -> None:
        """Note that an episode has ended in time."""
        self.common.finish()
        self.has_finished = True


def find_hang(error: BaseException) -> Hang | None:
    """Return `error` if it is a `Hang`, or the first one in a group of exceptions; None without one."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_hang, error.exceptions)), None)
    return error if isinstance(error, Hang) else None
