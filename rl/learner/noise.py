"""How noisy gradients are, read from the moments that AdamW keeps anyway: the noise scale of arXiv:1812.06162.

With `g` the gradient of an optimiser step, AdamW holds a mean `m` of about the last ten and a mean `v` of the squares
of about the last hundred. `sum of v` estimates `|E g|^2 + Var`, and `|m|^2` estimates `|E g|^2 + rho Var`, where `rho`
is the sum of the squared weights of the mean: two batch sizes, as it were, from which both parts follow without another
backward pass. The policy moves meanwhile, and gradients are those after clipping; so the scale is rough, and rather too
large.
"""

from __future__ import annotations

import torch

FIRST_STEP = 2  # before it, both means are of the same gradient


def gradient_noise(optimizer: torch.optim.Optimizer, groups_per_step: float) -> dict[str, float]:
    """The metrics `gradient/signal`, `gradient/noise` and `gradient/noise_scale` of an update, from AdamW's state.

    `signal` is the squared length of the mean gradient, `noise` the variance of the gradient of one group, summed over
    weights, and the scale their ratio, in groups. The signal is an unbiased difference and can be below 0, where there
    is no scale. Average signals and noises over updates before dividing them. Empty before the second step. Of several
    groups of parameters the first counts, the weights of the model.
    """
    group = optimizer.param_groups[0]
    states = [state for weight in group["params"] if (state := optimizer.state.get(weight))]
    if not states or (step := float(states[0]["step"])) < FIRST_STEP:
        return {}
    beta, beta_square = group["betas"]
    with torch.no_grad():
        lengths = torch._foreach_norm([state["exp_avg"] for state in states])
        squares = torch._foreach_norm([state["exp_avg_sq"] for state in states], 1)  # none is below 0
        length = _number(torch.stack(lengths).double().square().sum()) / (1 - beta**step) ** 2
        square = _number(torch.stack(squares).double().sum()) / (1 - beta_square**step)
    rho = (1 - beta) * (1 - beta ** (2 * step)) / ((1 + beta) * (1 - beta**step) ** 2)
    signal, noise = (length - rho * square) / (1 - rho), groups_per_step * (square - length) / (1 - rho)
    metrics = {"gradient/signal": signal, "gradient/noise": noise}
    return {**metrics, "gradient/noise_scale": noise / signal} if signal > 0 else metrics


def _number(value: torch.Tensor) -> float:
    """A number of all ranks, where the moments are sharded."""
    whole = getattr(value, "full_tensor", None)
    return float(value if whole is None else whole())
