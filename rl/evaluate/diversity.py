"""How many different outputs several policies, samples or seats amount to: effective channels, K* (arXiv:2602.03794).

An output stands for the words that it consists of, and pairs of neighbouring words, by their counts. There is no model
of meaning behind it: two ways to say the same count as different. Legend: n outputs of one task, d features.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

import numpy as np

from rl.evaluate.statistics import NO_ESTIMATE, Estimate, cluster_bootstrap
from rl.evaluate.voting import reply_text
from rl.methods.estimators.statistics import Floats
from rl.records import Trajectory

PENALTY = 0.5  # weight of the channels of failures, the authors' choice
MIN_SHARE = 1e-12  # of a spectrum; what is below is rounding
_WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Diversity:
    """Effective channels of sets of outputs, such as the samples of each task: means over the sets.

    Attributes:
        sets: Number of sets.
        size: Outputs in each.
        effective: K*, from 1 (all alike) to `size` (nothing in common).
        right: K* of the outputs of successful episodes, less half of K* of the others: different ways to be right.
        gains: By the name of a player, how much K* falls without it; empty where outputs have no players.
    """

    sets: int
    size: int
    effective: Estimate
    right: Estimate
    gains: dict[str, float] = field(default_factory=dict)


def effective_channels(features: Floats) -> float:
    """Compute K* = 2^H, where H is the entropy in bits of the spectrum of `E E^T / n`.

    `features` is (n, d), none of its rows 0; E are the rows at unit length, and the eigenvalues add up to 1.
    """
    rows = features / np.linalg.norm(features, axis=1, keepdims=True)
    gram = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows  # both have the same spectrum
    shares = np.linalg.eigvalsh(gram) / len(rows)
    shares = shares[shares > MIN_SHARE]
    return float(2.0 ** -(shares * np.log2(shares)).sum())


def right_channels(features: Floats, success: Sequence[bool]) -> float:
    """Compute K* of the successful outputs less `PENALTY` times K* of the others; an empty side counts 0.

    `features` is (n, d); `success` are n verdicts.
    """
    is_right = np.array(success, dtype=bool)
    sides = [effective_channels(side) if len(side) else 0.0 for side in (features[is_right], features[~is_right])]
    return sides[0] - PENALTY * sides[1]


def text_features(texts: Sequence[str]) -> Floats:
    """Counts (n, d) of the words, signs and pairs of neighbours of each text; a text without any has one of its own."""
    counts = []
    for text in texts:
        words = _WORDS.findall(text.lower()) or [""]
        counts.append(Counter([*words, *map(" ".join, pairwise(words))]))
    columns = {name: place for place, name in enumerate(dict.fromkeys(name for count in counts for name in count))}
    table = np.zeros((len(texts), len(columns)))
    for row, count in zip(table, counts, strict=True):
        row[[columns[name] for name in count]] = [*count.values()]
    return table


def output_of(trajectory: Trajectory) -> str:
    """Return all that an episode's replies say to the environment."""
    return "\n".join(reply_text(turn.reply) or "" for turn in trajectory.replies)


def measure(
    sets: Iterable[Sequence[Trajectory]], size: int, seed: int, *, players: Sequence[str] = ()
) -> Diversity | None:
    """Return the diversity of sets of outputs; None without any set of `size` outputs, or where that is below 2.

    Args:
        sets: Trajectories whose outputs are compared. Sets of another size, which lack some, are left out.
        size: Outputs of a complete set.
        seed: Seeds the bootstrap over sets.
        players: Who gave the outputs of each set, in order, for `Diversity.gains`.
    """
    complete = [members for members in sets if len(members) == size] if size > 1 else []
    if not complete:
        return None
    features = [text_features([*map(output_of, members)]) for members in complete]
    effective = [*map(effective_channels, features)]
    right = [right_channels(f, [t.success for t in m]) for f, m in zip(features, complete, strict=True)]
    gains = {}
    for place, name in enumerate(players):
        without = [effective_channels(np.delete(table, place, axis=0)) for table in features]
        gains[name] = fmean(effective) - fmean(without)
    return Diversity(len(complete), size, _estimate(effective, seed), _estimate(right, seed), gains)


def of_samples(tasks: Mapping[str, Sequence[Trajectory]], samples: int, seed: int) -> dict[str, Diversity]:
    """Return the diversity of a policy's samples of each task, as `{"samples": ...}`; empty with one sample."""
    diversity = measure(tasks.values(), samples, seed)
    return {"samples": diversity} if diversity else {}


def _estimate(values: Sequence[float], seed: int) -> Estimate:
    if not values:
        return NO_ESTIMATE
    low, high = cluster_bootstrap(values, np.random.default_rng(seed))
    return Estimate(fmean(values), *((low, high) if low <= high else (None, None)))  # nan without any spread
