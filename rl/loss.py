"""The loss of one micro-batch: independent parts over (B, T) tokens, summed with shares of the whole optimiser step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from rl.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Labels:
    """Who a row belongs to. B rows of T tokens; a trajectory whose history was rewritten has several rows."""

    trajectory: Tensor  # (B,) int64, numbered over the whole optimiser step
    group: Tensor  # (B,) int64
    turn: Tensor  # (B, T) int64, turn index of a sampled token, -1 elsewhere
    replayed: Tensor | None = None  # (B,) bool, True where nobody played it for this update; None where all were played


@dataclass(frozen=True, slots=True)
class Tokens:
    """All that a loss part may read, (B, T) each. Only `logp`, `entropy` and `value` carry a gradient."""

    logp: Tensor  # current policy, log-probability of the token at this index; 0 where not sampled
    old: Tensor  # behaviour log-probability recorded by the sampler; 0 where not sampled
    adv: Tensor  # advantage; 0 where not sampled
    mask: Tensor  # bool, True where sampled
    share: Tensor  # float, this token's share of the optimiser step's loss (from `reduce`); 0 where not sampled
    entropy: Tensor  # of the current policy, nats
    labels: Labels
    ref: Tensor | None = None  # reference policy's log-probability
    value: Tensor | None = None  # critic's value before this token
    old_value: Tensor | None = None  # the same when the advantages were computed
    returns: Tensor | None = None  # what `value` should have been


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
