"""The loss of one micro-batch: independent parts over (B, T) tokens, summed with shares of the whole optimiser step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl.methods.inputs import Labels, Tokens

if TYPE_CHECKING:
    from rl.methods.recipe import Recipe


def policy_loss(tokens: Tokens, recipe: Recipe) -> Tensor:
    """The scalar to minimise. `share` already sums to the whole step, so micro-batches are simply added."""
    loss = recipe.surrogate(recipe.ratio(tokens), tokens) * recipe.select(tokens)
    for penalty in recipe.penalty:
        loss = loss + penalty(tokens)
    return (loss * tokens.share).sum()


def silent_without_advantage(recipe: Recipe) -> bool:
    """Whether a token of advantage 0 adds nothing to the loss or the gradient, so that it need not be computed.

    Found by trying it on one token, so that it holds for parts from a user's file too.
    """
    if recipe.penalty:
        return False
    one = torch.ones(1, 1)
    logp = (-1.0 * one).requires_grad_()
    none = torch.zeros(1, dtype=torch.int64)
    tokens = Tokens(logp, -1.5 * one, 0.0 * one, one.bool(), one, one, Labels(none, none, none[:, None]))
    loss = recipe.surrogate(logp - tokens.old, tokens).sum()
    if loss.requires_grad:
        loss.backward()
    return not loss.item() and (logp.grad is None or not logp.grad.any())
