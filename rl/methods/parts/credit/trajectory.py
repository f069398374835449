"""Credit from returns of whole trajectories, and from rewards token by token.

Legend: B trajectories, M sampled tokens, T positions of a table with gaps (`token_table`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import returns, statistics, token_table, turn_table
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import NonNegative, Share, Whiten
from rl.methods.parts import needs
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def outcome(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    whiten: Whiten = False,
    unit: Literal["trajectory", "turn"] = "trajectory",
) -> TokenAdvantages:
    """One advantage per trajectory, on each of its tokens: its return against `norm.baseline`, by `norm.scale`.

    `whiten` then standardises over all sampled tokens, as REINFORCE++-baseline does (arXiv:2501.03262); `"verl"` gives
    verl's numbers also for tokens that are all equal. `unit="turn"` compares all turns of a group, each with the return
    of its trajectory (step-wise GRPO of DART-GUI, arXiv:2509.23866): a trajectory counts as often as it has turns.
    """
    table = turn_table.from_groups(groups)
    if unit == "turn":
        per_turn = turn_table.episode_advantages(table, table.returns[table.trajectory], norm, unit=unit)
        advantages = np.repeat(per_turn, table.num_tokens)
    else:
        advantages = np.repeat(turn_table.trajectory_advantages(table, norm), table.lengths)
    return turn_table.nest(groups, table.lengths, statistics.whiten_as(advantages, whiten))


@needs("ref", when="kl")
def reward_to_go(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 1.0,
    kl: NonNegative = 0.0,
    whiten: Whiten = True,
    reset_at_gap: bool = False,
) -> TokenAdvantages:
    """REINFORCE++ (arXiv:2501.03262): the reward from each token on, standardised over all sampled tokens.

    A turn's reward lies on its last token; what shaping added to the return lies on the trajectory's last token.

    Args:
        groups: The groups; with `kl`, their turns have the stream `ref`.
        norm: Not read.
        gamma: Discount per token.
        kl: Takes `kl * (log sampler - log reference)` from each token's reward.
        whiten: Whether to standardise; `"verl"` gives verl's numbers also for tokens that are all equal.
        reset_at_gap: Keeps rewards from crossing an observation, as released: blind to what earlier turns led to.
    """
    mask = token_table.sampled_mask(groups)
    rewards = token_table.token_rewards(groups)
    if kl:
        rewards = rewards - kl * (token_table.sampler_logprobs(groups) - token_table.read_stream(groups, "ref"))
    table = token_table.scatter(rewards, mask)
    to_go = returns.reward_to_go(table, mask, gamma=gamma, reset_at_gap=reset_at_gap)[mask]
    return token_table.nest(groups, statistics.whiten_as(to_go, whiten))
