"""The learning rate of each arm of a comparison, chosen on seeds that the comparison itself does not have.

Methods differ in the scale of their advantages, so that one rate for all may favour one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import NamedTuple

SEEDS = (1000, 1001)  # a comparison counts its own from 0


class Choice(NamedTuple):
    """The rate of one arm, and the mean area that each rate had."""

    rate: float
    areas: dict[str, float]  # by rate


def with_rate(arm: str, rate: float) -> str:
    """Return an arm with its learning rate as a flag, which the flags of the comparison come before."""
    return f"{arm} --lr {rate:g}"


def choose(
    arms: Sequence[str], rates: Sequence[float], play: Callable[[list[tuple[str, int]]], list[float]]
) -> dict[str, Choice]:
    """Return the rate of each arm with the largest mean area over `SEEDS`; of equal ones the smallest.

    `play` runs arms, each with a seed, and returns their areas. Without rates no arm has one.
    """
    jobs = [(with_rate(arm, rate), seed) for arm in arms for rate in rates for seed in SEEDS]
    areas = dict(zip(jobs, play(jobs), strict=True))
    choices = {}
    for arm in arms if rates else ():
        means = {rate: mean(areas[with_rate(arm, rate), seed] for seed in SEEDS) for rate in sorted(rates)}
        best = max(means, key=lambda rate: means[rate])
        choices[arm] = Choice(best, {f"{rate:g}": value for rate, value in means.items()})
    return choices
