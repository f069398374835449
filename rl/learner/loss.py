"""The loss of one micro-batch: the recipe's loss parts over (B, T) tokens, weighted by their shares of the step."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl.methods.inputs import Labels, Tokens
from rl.methods.options import PartError

if TYPE_CHECKING:
    from rl.methods.recipe import Recipe


def policy_loss(tokens: Tokens, recipe: Recipe) -> Tensor:
    """Return the scalar loss of a micro-batch: the recipe's loss parts, weighted by each token's share of the step.

    The parts are `ratio`, `surrogate`, `select` and `penalty`. `tokens.share` (B, T) is computed over the whole
    optimiser step, so the losses of its micro-batches add up. The surrogate is multiplied by every weight: those of
    `select`, and the stream `weight` of step parts. Raises `PartError` for a part whose result is not (B, T), which
    would broadcast in silence.
    """
    ratio = _check_shape("ratio", recipe.ratio(tokens), tokens)
    surrogate = _check_shape("surrogate", recipe.surrogate(ratio, tokens), tokens)
    loss = surrogate * tokens.mask
    for select in recipe.select:
        loss = loss * _check_shape("select", select(tokens), tokens)
    if "weight" in tokens.streams:
        loss = loss * tokens.streams["weight"]
    for penalty in recipe.penalty:
        loss = loss + _check_shape("penalty", penalty(tokens), tokens)
    return (loss * tokens.share).sum()


def step_streams(tokens: Tokens, recipe: Recipe) -> tuple[dict[str, Tensor], float]:
    """What the recipe's step parts compute of the `tokens` of a whole optimiser step: streams (B, T), and a number.

    The number, 1 unless a part gives one by the name `rate`, is a factor of the step's learning rate. Weights and rates
    of several parts are multiplied; no other name may be given twice. Raises `PartError` for a result of a wrong shape.
    """
    streams, rate = dict[str, Tensor](), 1.0
    for part in recipe.step:
        for name, value in part(tokens).items():
            if name == "rate":
                rate *= float(value)
                continue
            table = _check_shape("step", value, tokens).detach()
            if name in streams and name != "weight":
                raise PartError(f"two step parts give {name!r}")
            streams[name] = table * streams[name] if name in streams else table
    return streams, rate


def is_zero_without_advantage(recipe: Recipe) -> bool:
    """Whether a token of advantage 0 adds nothing to loss and gradient, so that it need not be computed.

    Found by computing the surrogate of one such token, so that it holds for parts from a user's file too.
    """
    if recipe.penalty:
        return False
    one = torch.ones(1, 1)
    logp = (-1.0 * one).requires_grad_()
    zero = torch.zeros(1, dtype=torch.int64)
    labels, other = Labels(zero, zero, zero[:, None]), -1.2 * one
    streams: defaultdict[str, Tensor] = defaultdict(lambda: other)
    tokens = Tokens(logp, -1.5 * one, 0.0 * one, one.bool(), one, one, labels, *(other,) * 5, streams=streams)
    loss = recipe.surrogate(logp - tokens.old, tokens).sum()
    if loss.requires_grad:
        loss.backward()
    return not loss.item() and (logp.grad is None or not logp.grad.any())


def _check_shape(slot: str, result: Tensor, tokens: Tokens) -> Tensor:
    """`result`. Raises `PartError` unless it has one number per token."""
    if result.shape != tokens.mask.shape:
        shape, expected = tuple(result.shape), tuple(tokens.mask.shape)
        raise PartError(f"{slot} returned a tensor of shape {shape}, expected {expected}, one number per token")
    return result
