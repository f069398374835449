"""Credit from a critic's values: token by token, turn by turn, or both. Each reads `value` and fills `returns`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import returns, statistics, token_table, turn_table
from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.turn_table import Credit
from rl.methods.options import NonNegative, Share
from rl.methods.parts import needs
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


@needs("value")
def gae(
    groups: Sequence[Group], norm: Normalization, *, gamma: Share = 1.0, lam: Share = 1.0, whiten: bool = True
) -> Credit:
    """PPO: generalised advantage estimation over sampled tokens, jumping over observations (arXiv:1506.02438).

    Reads the stream `value` and fills `returns`, the critic's target. Rewards lie as in `reward_to_go`. An episode that
    a limit cut short is not bootstrapped: it has value 0 after its last token, like one that ended.
    """
    return _over_tokens(groups, token_table.rewards(groups), gamma=gamma, lam=lam, whiten=whiten)


@needs("value")
def turn_gae(
    groups: Sequence[Group], norm: Normalization, *, gamma: Share = 0.99, lam: Share = 0.9, whiten: bool = True
) -> Credit:
    """Turn-PPO (arXiv:2512.17008): the same over turns. A whole reply is one action, taken where its first token is.

    `A_k = r_k + gamma * V_{k+1} - V_k + gamma * lam * A_{k+1}`, on every token of turn `k`, with `V_k` the value before
    its first token; every token of the turn regresses to `A_k + V_k`.
    """
    played = turn_table.read(groups)
    spoken = played.tokens > 0
    turn = np.repeat(np.arange(len(spoken)), played.tokens)
    paid = np.zeros(len(spoken))
    np.add.at(paid, turn, token_table.rewards(groups))
    first = np.zeros(len(spoken))
    first[spoken] = token_table.stream(groups, "value")[(np.cumsum(played.tokens) - played.tokens)[spoken]]
    sampled = played.table(spoken.astype(np.float64)) > 0
    advantages, targets = returns.generalised_advantages(
        played.table(paid), played.table(first), sampled, gamma=gamma, lam=lam
    )
    turn_table.fill(groups, "returns", played.flat(targets)[turn])
    return _credit(groups, played.flat(advantages)[turn], whiten)


@needs("value")
def bilevel_gae(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma_turn: Share = 0.95,
    gamma: Share = 1.0,
    lam: Share = 1.0,
    whiten: bool = True,
) -> Credit:
    """RAGEN (arXiv:2504.20073): advantages over turns, discounted by `gamma_turn`, then over the tokens within each.

    A turn's advantage, estimated at its last token, becomes the reward there; nothing crosses the end of a turn
    otherwise. A turn ends where its reply ends, also when its reward is 0.
    """
    index = token_table.turn_index(groups)
    mask = index >= 0
    rewards, values = (
        token_table.spread(x, mask) for x in (token_table.rewards(groups), token_table.stream(groups, "value"))
    )
    discounts = {"gamma_turn": gamma_turn, "gamma": gamma, "lam": lam}
    advantages, targets = returns.bilevel_advantages(rewards, values, index, **discounts)
    turn_table.fill(groups, "returns", targets[mask])
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
    whiten: bool = True,
) -> Credit:
    """StepSearch (arXiv:2505.15107): `gae`, each turn also paid `weight * (gain - redundancy)` on its last token.

    `gain` and `redundancy` name streams or metrics of a turn: what its search newly found, and what it found again.
    """
    extra = weight * (turn_table.numbers(groups, gain) - turn_table.numbers(groups, redundancy))
    rewards = token_table.rewards(groups) + token_table.at_ends(turn_table.read(groups), extra)
    return _over_tokens(groups, rewards, gamma=gamma, lam=lam, whiten=whiten)


def _over_tokens(groups: Sequence[Group], rewards: Floats, *, gamma: float, lam: float, whiten: bool) -> Credit:
    mask = token_table.mask(groups)
    paid, values = token_table.spread(rewards, mask), token_table.spread(token_table.stream(groups, "value"), mask)
    advantages, targets = returns.generalised_advantages(paid, values, mask, gamma=gamma, lam=lam)
    turn_table.fill(groups, "returns", targets[mask])
    return _credit(groups, advantages[mask], whiten)


def _credit(groups: Sequence[Group], advantages: Floats, whiten: bool) -> Credit:
    return token_table.nested(groups, statistics.whiten(advantages) if whiten else advantages)
