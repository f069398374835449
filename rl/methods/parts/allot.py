"""How many episodes tasks get: `(history, indices, size, rng) -> sizes`, for all tickets that are opened together.

`indices` are their tasks, in order; `size` is the number of episodes that each gets where they are divided equally
(`--size`). A part keeps to `size` on average, unless it says otherwise. It sees what the history has to report of
earlier groups only; what a group's own first episodes decide is for a strategy (`more_for_hard`, `by_priority`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.estimators.tasks import allocation, difficulty
from rl.methods.options import AboveZero, Count, NonNegative, Positive, Share
from rl.methods.parts.sampler.history import MOST_RESULTS, History, Result


def equal(history: History, indices: Sequence[int], size: int, rng: np.random.Generator) -> list[int]:
    """Give every task `size` episodes."""
    return [size] * len(indices)


def broad(
    history: History, indices: Sequence[int], size: int, rng: np.random.Generator, *, times: Count = 4
) -> list[int]:
    """BroRL (arXiv:2510.01180): `times` as many episodes for every task; use as many fewer `--groups`."""
    return [times * size] * len(indices)


def square_root(
    history: History,
    indices: Sequence[int],
    size: int,
    rng: np.random.Generator,
    *,
    least: Count = 2,
    most: Positive = 3.0,
    window: Count = 4,
) -> list[int]:
    """GDRO's square-root rule (arXiv:2601.19280): episodes in proportion to `sqrt(p (1 - p))`, at least `least`.

    `p` is the mean of the task's last `window` groups with one success and one failure added, so that none is certain.
    At most `most * size` episodes go to one task. The tickets of one call share `size` on average exactly; a ticket
    that is opened alone is compared with the tasks of the last 64 groups.
    """

    def deviation(index: int) -> float:
        means = history.rewards.get(index, ())[-window:]
        rate = (sum(means) + 1) / (len(means) + 2)
        return math.sqrt(min(max(rate * (1 - rate), 0.0), 0.25))

    own = np.array([deviation(index) for index in indices])
    if len(own) > 1:
        shares = np.full(len(own), 1 / len(own))
        episodes = allocation.square_root(list(own**2), list(shares), float(size)).episodes
        return allocation.whole_numbers(episodes, size * len(own), least=min(least, size), most=math.ceil(most * size))
    recent = {result.task for result in history.since(history.num_results - 64)}
    typical = np.mean([deviation(index) for index in sorted(recent)]) if recent else own[0]
    number = round(size * float(own[0]) / max(float(typical), 1e-6))
    return [min(max(number, min(least, size)), math.ceil(most * size))]


def fewer_for_easy(
    history: History,
    indices: Sequence[int],
    size: int,
    rng: np.random.Generator,
    *,
    above: Share = 0.6,
    least: Count = 2,
    window: Count = 4,
) -> list[int]:
    """DART-GUI (arXiv:2509.23866): fewer episodes for tasks that succeed in more than a share `above` of theirs.

    A task's success is that of its last `window` groups together. The number falls in a line from `size` at `above`
    to `least` at 1, rounded up; the line is our choice. A task without a group gets `size`. What is saved is not played
    elsewhere, so the mean is below `size`. Groups that ended more than 4096 groups ago are forgotten.
    """
    tasks, recent = set(indices), dict[int, list[Result]]()
    for result in reversed(history.since(history.num_results - MOST_RESULTS)):
        if result.task in tasks and len(recent.setdefault(result.task, [])) < window:
            recent[result.task].append(result)

    def number(index: int) -> int:
        results = recent.get(index, [])
        episodes = sum(result.size for result in results)
        rate = sum(result.successes for result in results) / episodes if episodes else 0.0
        if rate <= above:
            return size
        lowest = min(least, size)
        return lowest + math.ceil((size - lowest) * (1 - rate) / (1 - above) - 1e-9)

    return [number(index) for index in indices]


@dataclass
class arms:
    """Rollout-GDRO (arXiv:2601.19280): each bin of difficulty plays a bandit for the number of episodes of its tasks.

    A task's bin is the share of its last `window` groups with any success; it leaves a bin only where that share is
    past the bin's edge by `margin`. In each bin the numbers of episodes that may be chosen, two or more (one as well
    where `size` is 1), are arms with exponential weights. Of all choices of an arm per bin the likeliest is taken whose
    episodes add up to `size` per task. An arm that was played gains the failure rate of its groups less `price` times
    what it costs above `size`. The price follows the mean number of episodes; as `size` is an arm, the budget is met
    exactly, and the price stays 0.

    Attributes:
        eta: Sharpness of the weights.
        gamma: Share of equal weights.
        beta: Weight of a new score in the moving average; 0 adds scores up.
        pace: Step of the price.
        window: Groups of a task that decide its bin.
        margin: Share of groups that a task must be beyond an edge.
        largest: Largest arm, as a multiple of `size`.

    """

    eta: Positive = 0.65
    gamma: AboveZero = 0.01
    beta: NonNegative = 0.4
    pace: NonNegative = 0.05
    window: Count = 50
    margin: NonNegative = 0.03
    largest: Count = 2
    _num_read: int = field(default=0, init=False, compare=False)
    _outcomes: dict[int, list[bool]] = field(default_factory=dict, init=False, compare=False)
    _bins: dict[int, str] = field(default_factory=dict, init=False, compare=False)
    _scores: dict[str, list[float]] = field(default_factory=dict, init=False, compare=False)
    _price: float = field(default=0.0, init=False, compare=False)

    def __call__(self, history: History, indices: Sequence[int], size: int, rng: np.random.Generator) -> list[int]:
        """Return the number of episodes of each task."""
        smaller, larger = (size // 2, 3 * size // 4), (3 * size // 2, self.largest * size)
        choices = sorted({size, *larger, *(max(min(2, size), each) for each in smaller)})
        self._read(history, choices, size)
        bins = [self._bin(index) for index in indices]
        counts = {label: bins.count(label) for label in dict.fromkeys(bins)}
        chances = {
            label: allocation.arm_probabilities(self._of(label, choices), eta=self.eta, gamma=self.gamma)
            for label in counts
        }
        choice = allocation.match_budget(chances, counts, choices, size * len(indices))
        sizes = [choice[label] for label in bins]
        self._price += self.pace * (sum(sizes) / len(sizes) - size)
        return sizes

    def state_dict(self) -> dict[str, Any]:
        """Outcomes and bin by task, scores by bin, the price, and how far the history has been read."""
        return {
            "read": self._num_read,
            "outcomes": {str(index): list(outcomes) for index, outcomes in self._outcomes.items()},
            "bins": {str(index): label for index, label in self._bins.items()},
            "scores": {label: list(scores) for label, scores in self._scores.items()},
            "price": self._price,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._num_read, self._price = state["read"], state["price"]
        self._outcomes = {int(index): list(outcomes) for index, outcomes in state["outcomes"].items()}
        bins = state.get("bins") or {index: difficulty.bin_of(each, ()) for index, each in self._outcomes.items()}
        self._bins = {int(index): label for index, label in bins.items()}
        self._scores = {label: list(scores) for label, scores in state["scores"].items()}

    def _read(self, history: History, choices: Sequence[int], size: int) -> None:
        losses: dict[tuple[str, int], list[float]] = {}
        for result in history.since(self._num_read):
            arm = int(np.argmin([abs(choice - result.size) for choice in choices]))  # members may be missing
            losses.setdefault((self._bin(result.task), arm), []).append(1 - result.successes / max(result.size, 1))
            outcomes = [*self._outcomes.get(result.task, []), result.successes > 0]
            self._outcomes[result.task] = outcomes[-self.window :]
            label, of_task = self._bin(result.task), self._outcomes[result.task]
            self._bins[result.task] = difficulty.held_bin(label, of_task, (), margin=self.margin)
        self._num_read = history.num_results
        for (label, arm), values in losses.items():
            loss, surplus = sum(values) / len(values), choices[arm] - size
            scores = self._of(label, choices)
            scores = allocation.update_arm(scores, arm, loss, surplus=surplus, price=self._price, beta=self.beta)
            self._scores[label] = [float(score) for score in scores]

    def _bin(self, index: int) -> str:
        return self._bins.get(index, "0")

    def _of(self, label: str, choices: Sequence[int]) -> np.ndarray:
        scores = self._scores.get(label, [])
        return np.array(scores if len(scores) == len(choices) else [0.0] * len(choices))
