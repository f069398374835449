"""How near an episode has come to the documents that its question needs."""

from __future__ import annotations

from collections.abc import Sequence

from envs.tools.corpus.squad import f1

LISTED, READ = 0.5, 1.0  # how much of a document a turn showed


class Progress:
    """The documents shown in an episode, and StepSearch's measures of a turn (arXiv:2505.15107), by whole documents.

    Attributes:
        views: `LISTED` or `READ` for each title shown, in the order of first sight.
        coverage: The sum of the gains so far, 0 to 1.
    """

    def __init__(self, goals: Sequence[str], keys: Sequence[Sequence[str]] = ()) -> None:
        """`goals` has the titles of the documents that the question needs, `keys` its search keys; both may be ()."""
        self.views: dict[str, float] = {}
        self.coverage = 0.0
        self._goals, self._keys = goals, keys
        self._key_scores = [0.0] * len(keys)
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

    def search(self, query: str) -> None:
        """Note a search: its F1 becomes the score of the group of keys that it fits best, also where it was higher."""
        scores = [f1(query, group) for group in self._keys]
        if any(scores):
            place = scores.index(max(scores))
            self._key_scores[place] = round(scores[place], 4)  # as StepSearch does

    @property
    def key_score(self) -> float:
        """How well the searches so far fit the keys, 0 to 1: the mean over the groups; 0 without any."""
        return sum(self._key_scores) / len(self._key_scores) if self._key_scores else 0.0

    def metrics(self) -> dict[str, float]:
        """Return `gain` and `redundancy` of the turn, and `coverage` and `keys` so far."""
        redundancy = self._repeats / self._views_of_turn if self._views_of_turn else 0.0
        return {"gain": self._gain, "coverage": self.coverage, "redundancy": redundancy, "keys": self.key_score}
