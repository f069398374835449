"""DOTS' choice of tasks: those whose success rate is nearest to a target."""

from __future__ import annotations

import numpy as np

from rl.methods.estimators.tasks import difficulty
from rl.methods.options import Count, Positive, Share
from rl.methods.parts.sampler.history import History


def near_target(
    history: History,
    rng: np.random.Generator,
    *,
    target: Share = 0.5,
    temperature: Positive = 0.05,
    window: Count = 2,
    smoothing: Positive = 1.0,
) -> int:
    """DOTS (arXiv:2506.05316): draw a task with probability `softmax(-|p - target| / temperature)`.

    `p` is the mean of the task's last `window` groups, blended with the mean of all such means as if the latter had
    been seen `smoothing` times, where the paper predicts it from other tasks' by their texts. Tasks that are being
    played are left out while there are others, as it draws a batch without replacement. The paper's temperature is
    0.001, at which only the nearest task is ever drawn. Rewards are taken to lie between 0 and 1.
    """
    recent = {index: means[-window:] for index, means in history.rewards.items()}
    everywhere = float(np.mean([np.mean(means) for means in recent.values()])) if recent else target
    rates = np.full(history.num_tasks, everywhere)
    for index, means in recent.items():
        rates[index] = (sum(means) + smoothing * everywhere) / (len(means) + smoothing)
    idle = np.flatnonzero(history.pending == 0)
    candidates = idle if len(idle) else np.arange(history.num_tasks)
    chances = difficulty.nearness(rates[candidates], target=target, temperature=temperature)
    return int(rng.choice(candidates, p=chances))
