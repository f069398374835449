"""What comparisons of methods look like: curves of learning, or success at the end over the values of a flag."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.comparisons import Comparison
from benchmarks.support.runs import interval

GRID = 200  # places on the token axis at which curves are read
TITLE_WIDTH = 66  # characters above a plot
NUMERALS = "0123456789"

Runs = Mapping[str, Sequence[Mapping[str, Any]]]


def curve(found: Mapping[str, Any], tokens: int) -> np.ndarray:
    """Training success at `GRID` places between 0 and `tokens`: that of the update which sampled there.

    Of a run with evaluations, the success of greedy play instead, between two evaluations in a straight line.
    """
    if found.get("validation"):
        points = [(0, found["before"]), *found["validation"], (found["tokens"][-1], found["held_out"])]
        return np.interp(np.linspace(0, tokens, GRID, endpoint=False), *zip(*points, strict=True))
    places = np.minimum(np.linspace(0, tokens, GRID, endpoint=False), found["tokens"][-1] - 1)
    return np.asarray(found["success"])[np.searchsorted(found["tokens"], places, side="right")]


def plot(comparison: Comparison, runs: Runs, path: Path) -> None:
    """Draw the arms: over the numbers of a flag where they differ by recipe and one flag, else over sampled tokens."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(5.2, 3.8))
    flag = swept_flag(list(runs))
    if flag:
        _draw_ends(axis, runs, flag)
    else:
        _draw_curves(axis, comparison, runs)
    axis.set_title(textwrap.fill(f"{comparison.env.rsplit(':')[-1]}: {comparison.about}", TITLE_WIDTH), size=9)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def swept_flag(arms: Sequence[str]) -> str:
    """The flag of arms such as `grpo --lag 2`, if all have it, with two values or more each; else ""."""
    words = [arm.rsplit(maxsplit=2) for arm in arms]
    if not all(len(parts) == 3 and set(parts[2]) <= set(NUMERALS) for parts in words):
        return ""
    flags, recipes = {parts[1] for parts in words}, {parts[0] for parts in words}
    return flags.pop() if len(flags) == 1 and len(words) >= 2 * len(recipes) else ""


def _draw_ends(axis: Any, runs: Runs, flag: str) -> None:
    """Held-out success at the end over the numbers of a flag, with the interval of the mean over seeds."""
    by_recipe: dict[str, dict[int, list[float]]] = {}
    for arm, found in runs.items():
        recipe, _, number = arm.rsplit(maxsplit=2)
        by_recipe.setdefault(recipe, {})[int(number)] = [one["held_out"] for one in found]
    numbers = sorted({number for ends in by_recipe.values() for number in ends})
    places = {number: place for place, number in enumerate(numbers)}  # evenly spread, whatever their distances
    for nth, (recipe, ends) in enumerate(by_recipe.items()):
        shift = 0.06 * (nth - (len(by_recipe) - 1) / 2)
        means = np.array([np.mean(ends[number]) for number in sorted(ends)])
        bounds = np.array([interval(ends[number]) for number in sorted(ends)]).T
        x = [places[number] + shift for number in sorted(ends)]
        axis.errorbar(x, means, yerr=np.abs(bounds - means), marker="o", ms=4, lw=1.2, capsize=2, label=recipe)
    axis.set_xticks(range(len(numbers)), [str(number) for number in numbers])
    axis.set(xlabel=flag, ylabel="held-out success at the end (greedy)", ylim=(0, None))


def _draw_curves(axis: Any, comparison: Comparison, runs: Runs) -> None:
    """The mean curve of each arm, with the range of its seeds."""
    width = GRID // 20
    places = np.linspace(0, comparison.tokens, GRID, endpoint=False)[width - 1 :] / 1000
    for arm, found in runs.items():
        curves = [np.convolve(curve(one, comparison.tokens), np.ones(width) / width, mode="valid") for one in found]
        (line,) = axis.plot(places, np.mean(curves, axis=0), lw=1.4, label=arm)
        axis.fill_between(places, np.min(curves, axis=0), np.max(curves, axis=0), alpha=0.12, color=line.get_color())
    success = "success of greedy play" if comparison.is_judged_apart else "training success (sampled)"
    axis.set(xlabel="thousand sampled tokens", ylabel=success)
