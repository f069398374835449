"""How near an episode has come to the documents that its question needs."""

from __future__ import annotations

from collections.abc import Sequence

LISTED, READ = 0.5, 1.0  # how much of a document a turn showed


class Progress:
    """The documents shown in an episode, and StepSearch's measures of a turn (arXiv:2505.15107), by whole documents.

    Attributes:
        views: `LISTED` or `READ` for each title shown, in the order of first sight.
        coverage: The sum of the gains so far, 0 to 1.
    """

    def __init__(self, goals: Sequence[str]) -> None:
        """`goals` has the titles of the documents that the question needs; it may be empty."""
        self.views: dict[str, float] = {}
        self.coverage = 0.0
        self._goals = goals
        self.begin_turn()

    def begin_turn(self) -> None:
        """Begin to count a turn."""
        self._gain = 0.0
        self._views_of_turn = self._repeats = 0

    def show(self, titles: Sequence[str], view: float) -> None:
        """Note that documents are listed or shown in this turn."""
        for title in dict.fromkeys(titles):
            before = self.views.get(title, 0.0)
            self._views_of_turn += 1
            self._repeats += before >= view
            if title in self._goals:
                gain = max(0.0, view - before) / len(self._goals)
                self._gain += gain
                self.coverage += gain
            self.views[title] = max(view, before)

    def metrics(self) -> dict[str, float]:
        """Return `gain` and `redundancy` of the turn, and `coverage`."""
        redundancy = self._repeats / self._views_of_turn if self._views_of_turn else 0.0
        return {"gain": self._gain, "coverage": self.coverage, "redundancy": redundancy}
