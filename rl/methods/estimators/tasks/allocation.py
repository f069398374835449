"""How many episodes a task gets, from what its episodes were worth so far; a budget over several tasks.

Legend: P tasks, A arms (numbers of episodes to choose from).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from rl.methods.estimators.statistics import Floats


def more_for_hard(
    accuracy: float, size: int, *, most: int, weigh_hardness: bool = False, is_scaled: bool = False
) -> int:
    """DARS's number of further episodes after `size` of them with this accuracy, at most `most - size`.

    A group's total |advantage| is `size * S` with `S = 2 a (1 - a)`, or its root with `is_scaled` (advantages divided
    by their deviation). Enough episodes are added that it is what `size` episodes at accuracy 0.5 give, and with
    `weigh_hardness` up to twice that. Accuracy 0 counts as half a success; from 0.5 on nothing is added.
    """
    if accuracy >= 0.5:
        return 0
    a = 0.5 / size if accuracy <= 1e-6 else accuracy
    share, peak = (2 * math.sqrt(a * (1 - a)), float(size)) if is_scaled else (2 * a * (1 - a), 0.5 * size)
    target = 2 * (1 - a) * peak if weigh_hardness else peak
    return max(0, min(math.ceil((target - size * share) / share - 1e-9), most - size))


class SquareRoot(NamedTuple):
    """The best division of a budget: episodes per task of each kind (P,), the price of one, and what is minimised."""

    episodes: Floats
    price: float
    objective: float


def square_root(variances: Sequence[float], shares: Sequence[float], mean: float) -> SquareRoot:
    """GDRO's square-root rule: minimise `sum q_b v_b / n_b` at `sum q_b n_b = mean`, so `n_b` goes with `sqrt(v_b)`."""
    v, q = np.asarray(variances, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    root = float((q * np.sqrt(v)).sum())
    episodes: Floats = mean * np.sqrt(v) / root if root > 0 else np.full(len(v), float(mean))
    with np.errstate(divide="ignore", invalid="ignore"):
        objective = float(np.where(v > 0, q * v / episodes, 0.0).sum())
    return SquareRoot(episodes, (root / mean) ** 2, objective)


def whole_numbers(episodes: Floats, total: int, *, least: int, most: int) -> list[int]:
    """Whole numbers near `episodes` (P,), each within `least` and `most`, whose sum is `total` where these allow it.

    The fraction that is cut off decides who gets what is left: the largest first, the earlier of equal ones.
    """
    bounds = np.clip(np.asarray(episodes, dtype=np.float64), least, most)
    numbers = np.floor(bounds).astype(np.int64)
    order = np.argsort(numbers - bounds, kind="stable")
    while (missing := total - int(numbers.sum())) != 0:
        step = 1 if missing > 0 else -1
        movable = [i for i in (order if step > 0 else order[::-1]) if least <= numbers[i] + step <= most]
        if not movable:
            break
        for i in movable[: abs(missing)]:
            numbers[i] += step
    return [int(number) for number in numbers]


def half_width(deviation: float, count: int) -> float:
    """Half of the 95 % interval of a mean of `count` rewards with this standard deviation; infinite for one reward."""
    return math.inf if count < 2 else _quantile(count - 1) * deviation / math.sqrt(count)


@cache
def _quantile(freedom: int) -> float:
    """Student's t at 0.975, which a budget asks thousands of times."""
    from scipy import special  # takes a tenth of a second, and most runs never need it

    return float(special.stdtrit(freedom, 0.975))


def priority(deviation: float, count: int, total: int, *, bonus: float) -> float:
    """XRPO's worth of one more episode: how much the interval shrinks, plus `bonus * sqrt(log(1 + total) / count)`.

    `total` is the number of episodes of all tasks so far. Infinite where there are fewer than two episodes.
    """
    return math.inf if count < 2 else _gain(deviation, count) + bonus * math.sqrt(math.log1p(total) / count)


def spend(deviations: Sequence[float], counts: Sequence[int], budget: int, *, bonus: float) -> list[int]:
    """XRPO (arXiv:2510.06672): give `budget` episodes one by one to the task of the highest `priority`.

    `deviations` (P,) are the standard deviations of the rewards so far, `counts` (P,) how many there are. Returns the
    tasks in the order in which they are given an episode; of equal ones the first.
    """
    numbers, order = np.array(counts, dtype=np.int64), []
    gains = np.array([_gain(deviation, count) for deviation, count in zip(deviations, counts, strict=True)])
    for _ in range(budget if len(numbers) else 0):
        with np.errstate(divide="ignore"):
            worth = gains + bonus * np.sqrt(math.log1p(int(numbers.sum())) / numbers)  # `priority` of each
        place = int(np.argmax(worth))
        order.append(place)
        numbers[place] += 1
        gains[place] = _gain(deviations[place], int(numbers[place]))
    return order


def _gain(deviation: float, count: int) -> float:
    """How much the interval of a mean of `count` rewards shrinks by one more."""
    return math.inf if count < 2 else half_width(deviation, count) - half_width(deviation, count + 1)


def arm_probabilities(scores: Floats, *, eta: float, gamma: float) -> Floats:
    """Exponential weights over arms (A,), mixed with `gamma` of the uniform distribution."""
    weights = np.exp(eta * (scores - scores.max()))
    result: Floats = (1 - gamma) * weights / weights.sum() + gamma / len(scores)
    return result


def update_arm(scores: Floats, arm: int, loss: float, *, surplus: float, price: float, beta: float = 0.0) -> Floats:
    """The scores (A,) after arm number `arm` was played: it gains `loss - price * surplus`.

    `loss` is the mean loss of its tasks, `surplus` how many episodes it costs above the mean. With `beta`, scores are
    moving averages in place of sums.
    """
    gain = loss - price * surplus
    result: Floats = scores.copy()
    result[arm] = (1 - beta) * scores[arm] + beta * gain if beta else scores[arm] + gain
    return result


def match_budget(
    probabilities: Mapping[str, Floats], counts: Mapping[str, int], arms: Sequence[int], budget: int
) -> dict[str, int]:
    """Rollout-GDRO's choice of an arm per kind of task: the likeliest whose episodes add up to `budget`.

    `counts` says how many tasks of each kind there are. Where no choice adds up, one that comes nearest. Of equally
    likely choices the one with the smaller arms for the earlier kinds.
    """
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}  # by total
    for kind, count in counts.items():
        following: dict[int, tuple[float, tuple[int, ...]]] = {}
        for total, (value, choice) in best.items():
            for arm, probability in zip(arms, probabilities[kind], strict=True):
                now = value + math.log(max(float(probability), 1e-300))
                place = total + count * arm
                if place not in following or now > following[place][0] + 1e-12:
                    following[place] = (now, (*choice, arm))
        best = following
    nearest = min(best, key=lambda total: (abs(total - budget), -best[total][0]))
    return dict(zip(counts, best[nearest][1], strict=True))


def quota(chances: Sequence[float], counts: Sequence[float]) -> Floats:
    """PROPS' proportions of the next draw among K options, after `counts` (K,) of them were drawn.

    An option's chance is how far it falls short of its share, `chances` (K,), of all draws with the next one; where
    none does, the share itself.
    """
    p, n = np.asarray(chances, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    deficits: Floats = np.maximum((n.sum() + 1) * p - n, 0.0)
    if not deficits.any():
        deficits = p
    return deficits / deficits.sum()


def sampling_error(chances: Sequence[float], counts: Sequence[float]) -> float:
    """The sum over options of how far the share of draws is from the chance: 0 to 2."""
    n = np.asarray(counts, dtype=np.float64)
    return float(np.abs(n / n.sum() - np.asarray(chances)).sum())
