"""Credit from a critic's values: token by token, turn by turn, or both.

Each part reads the stream `value` and fills the stream `returns`, the critic's target.

Legend: B trajectories, R turns, M sampled tokens, T positions of a table with gaps (`token_table`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import returns, statistics, token_table, turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import NonNegative, Share, Whiten
from rl.methods.parts import needs
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


@needs("value")
def gae(
    groups: Sequence[Group], norm: Normalization, *, gamma: Share = 1.0, lam: Share = 1.0, whiten: Whiten = True
) -> TokenAdvantages:
    """PPO: generalised advantage estimation over sampled tokens, jumping over observations (arXiv:1506.02438).

    A turn's reward lies on its last token. An episode that a limit cut short is not bootstrapped: it has value 0 after
    its last token, like one that ended. Reads the stream `value`, the critic's value before each token, and fills
    `returns`, the critic's targets. `whiten` standardises over all sampled tokens (`"verl"` as verl does); `norm` is
    not read.
    """
    return _over_tokens(groups, token_table.token_rewards(groups), gamma=gamma, lam=lam, whiten=whiten)


@needs("value")
def turn_gae(
    groups: Sequence[Group], norm: Normalization, *, gamma: Share = 0.99, lam: Share = 0.9, whiten: Whiten = True
) -> TokenAdvantages:
    """Turn-PPO (arXiv:2512.17008): `gae` over turns. A whole reply is one action, taken where its first token is.

    `A_k = r_k + gamma * V_{k+1} - V_k + gamma * lam * A_{k+1}`, on every token of turn `k`, with `r_k` the reward of
    turn `k` and `V_k` the value before its first token, 0 behind the last turn. Every token of the turn regresses to
    `A_k + V_k`. `whiten` standardises the advantages over all tokens; `norm` is not read.
    """
    table = turn_table.from_groups(groups)
    has_tokens = table.num_tokens > 0
    turn_of_token = np.repeat(np.arange(len(has_tokens)), table.num_tokens)  # (M,)
    rewards = np.zeros(len(has_tokens))  # (R,), a turn without tokens pays the one before it
    np.add.at(rewards, turn_of_token, token_table.token_rewards(groups))
    values = np.zeros(len(has_tokens))  # (R,)
    first_tokens = (np.cumsum(table.num_tokens) - table.num_tokens)[has_tokens]
    values[has_tokens] = token_table.read_stream(groups, "value")[first_tokens]
    mask = table.pad(has_tokens.astype(np.float64)) > 0
    advantages, targets = returns.generalised_advantages(
        table.pad(rewards), table.pad(values), mask, gamma=gamma, lam=lam
    )
    turn_table.write_stream(groups, "returns", table.unpad(targets)[turn_of_token])
    return _credit(groups, table.unpad(advantages)[turn_of_token], whiten)


@needs("value")
def bilevel_gae(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma_turn: Share = 0.95,
    gamma: Share = 1.0,
    lam: Share = 1.0,
    whiten: Whiten = True,
) -> TokenAdvantages:
    """RAGEN (arXiv:2504.20073): advantages over turns, discounted by `gamma_turn`, then over the tokens within each.

    A turn's advantage, estimated at its last token, becomes the reward there; nothing else crosses the end of a turn. A
    turn ends where its reply ends, also when its reward is 0. `whiten` standardises over all sampled tokens; `norm` is
    not read.
    """
    index = token_table.turn_index(groups)
    mask = index >= 0
    rewards = token_table.scatter(token_table.token_rewards(groups), mask)
    values = token_table.scatter(token_table.read_stream(groups, "value"), mask)
    discounts = {"gamma_turn": gamma_turn, "gamma": gamma, "lam": lam}
    advantages, targets = returns.bilevel_advantages(rewards, values, index, **discounts)
    turn_table.write_stream(groups, "returns", targets[mask])
    return _credit(groups, advantages[mask], whiten)


@needs("value")
def gae_with_gain(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    weight: NonNegative = 0.6,
    gain: str = "gain",
    redundancy: str = "redundancy",
    gamma: Share = 1.0,
    lam: Share = 1.0,
    whiten: Whiten = True,
) -> TokenAdvantages:
    """StepSearch (arXiv:2505.15107): `gae` with `weight * (gain - redundancy)` more on each turn's last token.

    `gain` and `redundancy` name streams (numbers per token that a score part has written) or metrics (of
    `info["metrics"]`) of a turn: how much its search found anew, and how much it found again. `norm` is not read.
    """
    step_rewards = weight * (turn_table.turn_signal(groups, gain) - turn_table.turn_signal(groups, redundancy))
    at_ends = token_table.at_turn_ends(turn_table.from_groups(groups), step_rewards)
    return _over_tokens(groups, token_table.token_rewards(groups) + at_ends, gamma=gamma, lam=lam, whiten=whiten)


def _over_tokens(
    groups: Sequence[Group], rewards: Floats, *, gamma: float, lam: float, whiten: Whiten
) -> TokenAdvantages:
    """Credit by generalised advantage estimation from the rewards (M,) of sampled tokens."""
    mask = token_table.sampled_mask(groups)
    values = token_table.scatter(token_table.read_stream(groups, "value"), mask)
    advantages, targets = returns.generalised_advantages(
        token_table.scatter(rewards, mask), values, mask, gamma=gamma, lam=lam
    )
    turn_table.write_stream(groups, "returns", targets[mask])
    return _credit(groups, advantages[mask], whiten)


def _credit(groups: Sequence[Group], advantages: Floats, whiten: Whiten) -> TokenAdvantages:
    return token_table.nest(groups, statistics.whiten_as(advantages, whiten))
