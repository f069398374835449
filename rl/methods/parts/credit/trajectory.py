"""Credit from whole trajectories, and from rewards token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import returns, statistics, token_table, turn_table
from rl.methods.estimators.turn_table import Credit
from rl.methods.options import NonNegative, Share
from rl.methods.parts import needs
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def outcome(groups: Sequence[Group], norm: Normalization, *, whiten: bool = False) -> Credit:
    """One advantage per trajectory, on each of its tokens: the reward against `norm.baseline`, by `norm.scale`.

    `whiten` then standardises over all sampled tokens, as REINFORCE++-baseline does (arXiv:2501.03262).
    """
    played = turn_table.read(groups)
    earned = np.repeat(turn_table.per_trajectory(played, norm), played.lengths)
    return turn_table.nested(groups, played.lengths, statistics.whiten(earned) if whiten else earned)


@needs("ref", when="kl")
def reward_to_go(
    groups: Sequence[Group],
    norm: Normalization,
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
    mask = token_table.mask(groups)
    rewards = token_table.rewards(groups)
    if kl:
        rewards = rewards - kl * (token_table.sampler(groups) - token_table.stream(groups, "ref"))
    earned = returns.reward_to_go(token_table.spread(rewards, mask), mask, gamma=gamma, reset_at_gap=reset_at_gap)[mask]
    return token_table.nested(groups, statistics.whiten(earned) if whiten else earned)
