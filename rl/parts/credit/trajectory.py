"""Credit from whole trajectories, and from rewards token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.options import NonNegative, Share
from rl.parts import needs, returns, statistics, tokens, turns
from rl.parts.turns import Credit
from rl.records import Group

if TYPE_CHECKING:
    from rl.recipe import Recipe


def outcome(groups: Sequence[Group], recipe: Recipe, *, whiten: bool = False) -> Credit:
    """One advantage per trajectory, on each of its tokens: the reward against `recipe.baseline`, by `recipe.scale`.

    `whiten` then standardises over all sampled tokens, as REINFORCE++-baseline does (arXiv:2501.03262).
    """
    played = turns.read(groups)
    earned = np.repeat(turns.per_trajectory(played, recipe), played.lengths)
    return turns.nested(groups, played.lengths, statistics.whiten(earned) if whiten else earned)


@needs("ref", when="kl")
def reward_to_go(
    groups: Sequence[Group],
    recipe: Recipe,
    *,
    gamma: Share = 1.0,
    kl: NonNegative = 0.0,
    whiten: bool = True,
    reset_at_gap: bool = False,
) -> Credit:
    """REINFORCE++ (arXiv:2501.03262): rewards from this token on, standardised over all sampled tokens.

    A turn's reward lies on its last token; what shaping added to the return lies on the last of all. `gamma` discounts
    per token. `kl` takes `kl * (log sampler - log reference)` from each token's reward. `reset_at_gap` keeps rewards
    from crossing an observation: the shipped form, blind to what earlier turns led to.
    """
    mask = tokens.mask(groups)
    rewards = tokens.rewards(groups)
    if kl:
        rewards = rewards - kl * (tokens.sampler(groups) - tokens.stream(groups, "ref"))
    earned = returns.reward_to_go(tokens.spread(rewards, mask), mask, gamma=gamma, reset_at_gap=reset_at_gap)[mask]
    return tokens.nested(groups, statistics.whiten(earned) if whiten else earned)
