"""GRESO: tasks whose groups have long had no variance are drawn less and less."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.estimators.tasks import difficulty
from rl.methods.options import Share
from rl.methods.parts.sampler.history import History, Result
from rl.methods.parts.sampler.plain import shuffled

EASY, HARD = "easy", "hard"
TRIALS = 1000  # of a draw; among tasks that are each refused 99 times of 100


@dataclass
class skip_settled:
    """GRESO (arXiv:2506.02177): draw in random order, and skip tasks the rather, the longer they had no variance.

    A task is passed over unless a draw succeeds with chance `p^z`, at least 0.01, after `z` groups in a row without
    variance. There is one `p` for tasks that were solved and one for those that were not: after each update it falls by
    `pace` if the share of such groups was at least its target, and rises by `pace` if not, within 0.05 and 0.95. It
    stands still until every task has been drawn. A task that is passed over keeps its run.

    Attributes:
        start: Both numbers `p` at first.
        target: Share of groups without variance that is aimed at: a third of it solved, the rest unsolved.
        pace: Step of `p`.
        ceiling: Mean reward from which a group without variance counts as solved, else as unsolved.

    """

    start: Share = 0.5
    target: Share = 0.25
    pace: Share = 0.01
    ceiling: Share = 0.98
    _num_read: int = field(default=0, init=False, compare=False)
    _runs: dict[int, tuple[str, int]] = field(default_factory=dict, init=False, compare=False)  # kind and length
    _skips: dict[int, int] = field(default_factory=dict, init=False, compare=False)  # how often passed over
    _base: dict[str, float] = field(default_factory=dict, init=False, compare=False)
    _batch: list[str] = field(default_factory=list, init=False, compare=False)  # kinds of the results of one update
    _update: int = field(default=0, init=False, compare=False)

    def __call__(self, history: History, rng: np.random.Generator) -> int:
        """Return the index of a task."""
        for result in history.since(self._num_read):
            self._read(result, is_adapting=bool(history.draws.min()))
        self._num_read = history.num_results
        visits = history.draws.copy()  # to be passed over counts like a draw, so that the order goes on
        for index, count in self._skips.items():
            visits[index] += count
        for _ in range(TRIALS):
            index = int(rng.choice(np.flatnonzero(visits == visits.min())))
            if rng.random() < self.chance(index):
                return index
            visits[index] += 1
            self._skips[index] = self._skips.get(index, 0) + 1
        return shuffled(history, rng)

    def chance(self, index: int) -> float:
        """The chance that task `index` is not passed over."""
        kind, run = self._runs.get(index, ("", 0))
        return difficulty.chance_of_drawing(self._base.get(kind, self.start), run)

    def state_dict(self) -> dict[str, Any]:
        """The runs by task, both `p`, and how far the history has been read."""
        return {
            "read": self._num_read,
            "runs": {str(index): list(run) for index, run in self._runs.items()},
            "skips": {str(index): count for index, count in self._skips.items()},
            "base": dict(self._base),
            "batch": list(self._batch),
            "update": self._update,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._num_read, self._update = state["read"], state["update"]
        self._runs = {int(index): (kind, run) for index, (kind, run) in state["runs"].items()}
        self._skips = {int(index): count for index, count in state["skips"].items()}
        self._base, self._batch = dict(state["base"]), list(state["batch"])

    def _read(self, result: Result, *, is_adapting: bool) -> None:
        if result.update != self._update:
            if is_adapting:
                self._adapt()
            self._update, self._batch = result.update, []
        kind = "" if result.is_varied else EASY if result.mean >= self.ceiling else HARD
        self._batch.append(kind)
        before, run = self._runs.get(result.task, ("", 0))
        self._runs[result.task] = (kind, (run if kind == before else 0) + 1) if kind else ("", 0)

    def _adapt(self) -> None:
        for kind, share in ((EASY, 1 / 3), (HARD, 2 / 3)):
            is_above = self._batch.count(kind) >= share * self.target * max(len(self._batch), 1)
            base = self._base.get(kind, self.start) + (-self.pace if is_above else self.pace)
            self._base[kind] = min(max(base, 0.05), 0.95)
