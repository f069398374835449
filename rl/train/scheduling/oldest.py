"""Whether the oldest tickets are ready for an update, where updates take tickets in the order of their admission."""

from __future__ import annotations

from rl.train.progress import Progress, is_usable


class OldestTickets:
    """How far tickets have ended without a gap; looks at each of them once between two updates."""

    def __init__(self) -> None:
        """Begin with the oldest ticket."""
        self.restart()

    def restart(self) -> None:
        """Count anew: tickets were used up, or one that was counted gives nothing to train on any more."""
        self._next = -1  # the oldest ticket that was not counted
        self._num_usable = 0  # of those before it

    def are_enough(self, progress: Progress, groups: int) -> bool:
        """Whether as many as `groups` of the oldest tickets gave something to train on, and all before them ended."""
        if self._next < progress.consumed:
            self._next, self._num_usable = progress.consumed, 0
        while self._num_usable < groups:
            if (of_ticket := progress.ended.get(self._next)) is not None:
                self._num_usable += is_usable(of_ticket)
            elif self._next not in progress.used:
                return False
            self._next += 1
        return True
