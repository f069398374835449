"""How hard tasks are for the policy now: rules by which samplers choose and bins that difficulty is sorted into."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rl.methods.estimators.statistics import Floats

LEAST_CHANCE = 0.01  # of GRESO, with which any task is drawn
EXCLUDED = "excluded"


def chance_of_drawing(base: float, run: int) -> float:
    """GRESO's chance of drawing a task that has shown no variance in `run` groups: `base^run`, at least 1 %."""
    return max(base**run, LEAST_CHANCE)


def variance_share(successes: float, size: int) -> float:
    """VCRL's variance of 0/1 rewards over the largest that a group of this size can have; 0 for a group of one."""
    if size < 2:
        return 0.0
    largest = (size // 2) * (size - size // 2) / (size * (size - 1))
    return successes * (size - successes) / (size * (size - 1)) / largest


def eligible(groups: Sequence[Sequence[float]]) -> list[int]:
    """The groups, by number, whose rewards differ, so that an advantage in them is not 0."""
    return [number for number, rewards in enumerate(groups) if len(set(rewards)) > 1]


def nearness(rates: Floats, *, target: float, temperature: float) -> Floats:
    """DOTS' probabilities of drawing tasks with these success rates (P,): a softmax of the distance to `target`."""
    logits = -np.abs(rates - target) / temperature
    weights = np.exp(logits - logits.max())
    result: Floats = weights / weights.sum()
    return result


def bin_of(outcomes: Sequence[bool], edges: Sequence[float], *, excludes_extremes: bool = False) -> str:
    """GDRO's bin of a task by the share of its last groups with any success; without groups the share is 0.

    `edges` are ascending; without any there are ten bins of equal width. With `excludes_extremes`, tasks that always or
    never succeed are in the bin `"excluded"`.
    """
    rate = _rate(outcomes)
    if excludes_extremes and rate in (0.0, 1.0):
        return EXCLUDED
    return str(_place(rate, edges))


def held_bin(previous: str, outcomes: Sequence[bool], edges: Sequence[float], *, margin: float) -> str:
    """The bin of a task that was in `previous` and leaves it only where its rate is past the bin's edge by `margin`.

    Going up, that is the lower edge of the bin it would be in; going down, the upper edge.
    """
    bounds = list(edges) or [k / 10 for k in range(1, 10)]
    rate, now, before = _rate(outcomes), _place(_rate(outcomes), edges), int(previous)
    if now > before:
        return str(now if rate >= bounds[now - 1] + margin or rate == 1.0 else before)
    if now < before:
        return str(now if rate <= bounds[now] - margin or rate == 0.0 else before)
    return previous


def _rate(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / len(outcomes) if outcomes else 0.0


def _place(rate: float, edges: Sequence[float]) -> int:
    if not edges:
        return min(int(rate * 10 + 1e-9), 9)
    return int(np.searchsorted(np.asarray(edges), rate, side="right"))


def bin_losses(labels: Sequence[str], losses: Sequence[float], *, over_share: bool = False) -> dict[str, float]:
    """The mean loss of each bin in a batch, with `over_share` divided by the bin's share of the batch."""
    means = {}
    for label in dict.fromkeys(labels):
        own = [loss for one, loss in zip(labels, losses, strict=True) if one == label]
        means[label] = sum(own) / len(own) / (len(own) / len(labels) if over_share else 1.0)
    return means


def update_scores(scores: Mapping[str, float], means: Mapping[str, float], *, beta: float) -> dict[str, float]:
    """GDRO's scores by bin after a batch: moving averages, begun by a bin's first mean; with `beta=0` sums."""
    result = dict(scores)
    for label, mean in means.items():
        if beta == 0:
            result[label] = result.get(label, 0.0) + mean
        else:
            result[label] = (1 - beta) * result[label] + beta * mean if label in result else mean
    return result


def mixture(
    labels: Sequence[str], scores: Mapping[str, float], *, eta: float, gamma: float, standardises: bool = False
) -> dict[str, float]:
    """Prompt-GDRO's weight of each bin in `labels`: exponential in its score, with a `gamma` share of equal weights.

    With `standardises`, scores are first centred and divided by their deviation, and held within -3 and 3.
    """
    bins = list(dict.fromkeys(labels))
    values = np.array([scores.get(label, 0.0) for label in bins])
    if standardises:
        values = np.clip((values - values.mean()) / max(float(values.std()), 1e-3), -3.0, 3.0)
    weights = np.exp(eta * (values - values.max(initial=-math.inf)))
    shares = (1 - gamma) * weights / weights.sum() + gamma / len(bins)
    return {label: float(share) for label, share in zip(bins, shares, strict=True)}


def mean_one(weights: Floats, *, cap: float) -> Floats:
    """`weights` (P,) divided by their mean, and at most `cap`."""
    result: Floats = np.minimum(weights / weights.mean(), cap)
    return result
