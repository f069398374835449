"""Credit against baselines of least variance, which weigh returns by the size of the gradients that they multiply.

Legend: B trajectories, M sampled tokens, T positions: the tokens of a trajectory without what it read in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import least_variance, statistics, token_table, turn_table
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.parts import BASELINE, needs, traits
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


@traits(BASELINE, expects={"baseline": ("none", "group_mean"), "scale": ("none",)})
@needs("square")
def optimal_token(
    groups: Sequence[Group], norm: Normalization, *, zero_tail: bool = False, singleton: Literal["zero", "raw"] = "zero"
) -> TokenAdvantages:
    """OTB (arXiv:2602.07078): the reward from each token on, less the group's weighted mean at the same token.

    The weight of a member at a token is the sum, over its tokens so far, of `1 - 2 p + sum of p^2`, the squared length
    of the gradient of the logits, times the squared ratio of trainer against sampler where the run computes `proximal`.
    Tokens are counted over all turns, without what was read in between. The tokens of the longest member beyond the
    second longest have nothing to be compared with: their advantage is 0, with `zero_tail` their reward. A group of one
    has advantage 0, with `singleton="raw"` its reward. `norm` is not read.
    """
    mask, owner = least_variance.compact(groups)
    ratio, logp = np.ones(int(mask.sum())), token_table.sampler_logprobs(groups)
    if all("proximal" in turn.streams for turn in turn_table.turns_of(groups)):
        proximal = token_table.read_stream(groups, "proximal")
        ratio, logp = np.exp((proximal - logp).clip(-20.0, 20.0)), proximal
    energy = (1 - 2 * np.exp(logp) + token_table.read_stream(groups, "square")) * ratio**2
    rewards = token_table.scatter(token_table.token_rewards(groups), mask)
    to_go = np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]
    weight = np.cumsum(token_table.scatter(energy, mask), axis=1)
    baseline = least_variance.token_baseline(to_go, weight, mask, owner, zero_tail=zero_tail)
    if singleton == "raw":
        baseline[statistics.group_size(owner) == 1] = 0.0
    return token_table.nest(groups, (to_go - baseline)[mask])


@traits(BASELINE, expects={"baseline": ("none", "group_mean"), "scale": ("none",)})
@needs("gradient_norm", "proximal")
def minimum_variance(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    among: Literal["group", "update"] = "group",
    per_token: bool = False,
    standardised: bool = True,
) -> TokenAdvantages:
    """VCPO's OPOB (arXiv:2602.17616): returns less their mean weighted by `|g|^2 w^2`, which has the least variance.

    `g` is the gradient of a trajectory's mean log-probability and `w` its ratio of trainer against sampler, not capped.
    `among="update"` has one baseline for all groups. `per_token` divides the weights by the squared length, and
    `standardised` the result by the standard deviation of the group's returns. `norm` is not read.
    """
    table = turn_table.from_groups(groups)
    owner = np.repeat(np.arange(len(table.returns)), table.lengths)
    gap = token_table.read_stream(groups, "proximal") - token_table.sampler_logprobs(groups)
    ratio = np.exp(np.bincount(owner, gap, minlength=len(table.returns)).clip(-20.0, 20.0))
    lengths = np.maximum(table.lengths, 1)
    norms = np.bincount(owner, token_table.read_stream(groups, "gradient_norm"), minlength=len(lengths)) / lengths
    key = table.group if among == "group" else np.zeros_like(table.group)
    baseline = least_variance.weighted_baseline(table.returns, norms, ratio, key, lengths if per_token else None)
    advantages = table.returns - baseline
    if standardised:
        spread = statistics.group_std(table.returns, table.group)
        advantages = np.where(spread > 1e-8, advantages / np.maximum(spread, 1e-8), advantages)
    return turn_table.trajectories_to_tokens(groups, table, advantages)
