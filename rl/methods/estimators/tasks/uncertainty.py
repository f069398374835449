"""Where a reply is uncertain, by the likeliest tokens at each of its positions: where to fork it, and where to cut it.

ECHO's signals (Entropy-Confidence Hybrid Optimization). Legend: T positions of a reply, N likeliest tokens at each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from rl.methods.estimators.statistics import Floats

GROUP_WINDOW, TAIL_WINDOW = 4, 8  # positions
Measure = Literal["top", "released"]


class Signals(NamedTuple):
    """Numbers (T,) of a reply.

    `entropy` is in nats, of the likeliest tokens alone; `group` and `tail` are means of the confidence over the last 4
    and 8 positions, the own among them; `rise` is the entropy less its mean over the 4 positions before, 0 at the
    first.
    """

    entropy: Floats
    group: Floats
    tail: Floats
    rise: Floats


@dataclass(frozen=True)
class Limits:
    """Beyond which signals a reply is forked or cut.

    Attributes:
        entropy: Least entropy of a fork.
        low: Entropy at which a fork is narrowest.
        group: Largest mean confidence of a fork.
        rise: Least rise of entropy of a fork.
        depth: Positions before the first fork.
        cut_group: Mean confidence below which a reply is cut.
        cut_tail: Mean confidence below which it is cut after `cut_steps` falls in a row.
        cut_rise: Rise above which it is cut, the last of `cut_steps` rises in a row.
        cut_steps: Positions in a row.

    """

    entropy: float = 3.5
    low: float = 1.5
    group: float = 1.2
    rise: float = 0.2
    depth: int = 4
    cut_group: float = 0.4
    cut_tail: float = 1.0
    cut_rise: float = 0.5
    cut_steps: int = 3

    @classmethod
    def of_replies(cls, replies: Sequence[Signals], *, depth: int) -> Limits:
        """Limits from replies to the same task, where numbers that were fixed would fit no model.

        A fork needs an entropy in the highest tenth, and a mean confidence below the median; a reply is cut in the
        lowest hundredth of mean confidences. It is narrowest at the median entropy.
        """
        entropy = np.concatenate([reply.entropy for reply in replies]) if replies else np.zeros(1)
        group = np.concatenate([reply.group for reply in replies]) if replies else np.zeros(1)
        low, high = np.quantile(entropy, [0.5, 0.9])
        lowest, middle = np.quantile(group, [0.01, 0.5])
        return cls(float(high), float(low), float(middle), depth=depth, cut_group=float(lowest), cut_tail=float(lowest))


class BranchPoint(NamedTuple):
    """Where a reply is forked, and into how many likeliest tokens."""

    position: int
    width: int


def signals(logprobs: Sequence[Sequence[float]], measure: Measure = "top") -> Signals:
    """The signals of a reply with these log-probabilities of the likeliest tokens, best first, at each position.

    Confidence is the probability of the likeliest token, or with `measure="released"`, as ECHO's code has it, the
    negative mean of all log-probabilities, which is large where one token takes everything.
    """
    tables = [np.asarray(row, dtype=np.float64) for row in logprobs]
    shares = [np.exp(row - row.max()) / np.exp(row - row.max()).sum() for row in tables]
    entropy = np.array([float(-(p * np.log(np.maximum(p, 1e-12))).sum()) for p in shares])
    own = np.array([float(np.exp(row[0])) if measure == "top" else float(-row.mean()) for row in tables])
    before = np.concatenate([entropy[:1], _trailing_mean(entropy, GROUP_WINDOW)[:-1]])
    return Signals(entropy, _trailing_mean(own, GROUP_WINDOW), _trailing_mean(own, TAIL_WINDOW), entropy - before)


def branch_point(
    reply: Signals,
    limits: Limits,
    *,
    alpha: float = 2.0,
    beta: float = 1.0,
    least: int = 1,
    most: int = 4,
) -> BranchPoint | None:
    """The first position where a reply is to be forked, and the width there; None without one."""
    for t in range(limits.depth, len(reply.entropy)):
        is_uncertain = reply.entropy[t] >= limits.entropy and reply.group[t] <= limits.group
        if is_uncertain and reply.rise[t] >= limits.rise:
            height = (reply.entropy[t] - limits.low) / max(limits.entropy - limits.low, 1e-6)
            margin = (reply.group[t] - limits.group) / max(abs(limits.group), 1e-6)
            return BranchPoint(t, int(np.clip(round(float(least + alpha * height - beta * margin)), least, most)))
    return None


def cut_point(reply: Signals, limits: Limits) -> tuple[int, str] | None:
    """The position from which a reply is not worth its tokens, and why; None if it goes on to its end."""
    lowest, falls, rises = float("inf"), 0, 0
    for t in range(len(reply.entropy)):
        lowest = min(lowest, reply.group[t])
        if lowest < limits.cut_group:
            return t, "group_confidence"
        falls = falls + 1 if t and reply.tail[t] < reply.tail[t - 1] else 0
        if falls >= limits.cut_steps and reply.tail[t] <= limits.cut_tail:
            return t, "tail_drop"
        rises = rises + 1 if reply.rise[t] > 0 else 0
        if rises >= limits.cut_steps and reply.rise[t] > limits.cut_rise:
            return t, "entropy_spike"
    return None


def _trailing_mean(x: Floats, window: int) -> Floats:
    """Means (T,) of `x` (T,) over each position and those before it, `window` of them."""
    sums = np.concatenate([[0.0], np.cumsum(x)])
    ends = np.arange(1, len(sums))
    begins = np.maximum(ends - window, 0)
    means: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return means
