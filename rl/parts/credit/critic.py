"""Credit from a critic's values: token by token, turn by turn, or both. Each reads `value` and fills `returns`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.options import NonNegative, Share
from rl.parts import needs, returns, statistics, tokens, turns
from rl.parts.statistics import Floats
from rl.parts.turns import Credit
from rl.records import Group

if TYPE_CHECKING:
    from rl.recipe import Recipe


@needs("value")
def gae(
    groups: Sequence[Group], recipe: Recipe, *, gamma: Share = 1.0, lam: Share = 1.0, whiten: bool = True
) -> Credit:
    """PPO: generalised advantage estimation over sampled tokens, jumping over observations (arXiv:1506.02438).

    Reads the stream `value` and fills `returns`, the critic's target. Rewards lie as in `reward_to_go`. An episode that
    a limit cut short is not bootstrapped: it has value 0 after its last token, like one that ended.
    """
    return _over_tokens(groups, tokens.rewards(groups), gamma=gamma, lam=lam, whiten=whiten)


@needs("value")
def turn_gae(
    groups: Sequence[Group], recipe: Recipe, *, gamma: Share = 0.99, lam: Share = 0.9, whiten: bool = True
) -> Credit:
    """Turn-PPO (arXiv:2512.17008): the same over turns. A whole reply is one action, taken where its first token is.

    `A_k = r_k + gamma * V_{k+1} - V_k + gamma * lam * A_{k+1}`, on every token of turn `k`, with `V_k` the value before
    its first token; every token of the turn regresses to `A_k + V_k`.
    """
    played = turns.read(groups)
    spoken = played.tokens > 0
    turn = np.repeat(np.arange(len(spoken)), played.tokens)
    paid = np.zeros(len(spoken))
    np.add.at(paid, turn, tokens.rewards(groups))
    first = np.zeros(len(spoken))
    first[spoken] = tokens.stream(groups, "value")[(np.cumsum(played.tokens) - played.tokens)[spoken]]
    sampled = played.table(spoken.astype(np.float64)) > 0
    advantages, targets = returns.generalised_advantages(
        played.table(paid), played.table(first), sampled, gamma=gamma, lam=lam
    )
    turns.fill(groups, "returns", played.flat(targets)[turn])
    return _credit(groups, played.flat(advantages)[turn], whiten)


@needs("value")
def bilevel_gae(
    groups: Sequence[Group],
    recipe: Recipe,
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
    index = tokens.turn_index(groups)
    mask = index >= 0
    rewards, values = (tokens.spread(x, mask) for x in (tokens.rewards(groups), tokens.stream(groups, "value")))
    discounts = {"gamma_turn": gamma_turn, "gamma": gamma, "lam": lam}
    advantages, targets = returns.bilevel_advantages(rewards, values, index, **discounts)
    turns.fill(groups, "returns", targets[mask])
    return _credit(groups, advantages[mask], whiten)


@needs("value")
def gae_with_gain(
    groups: Sequence[Group],
    recipe: Recipe,
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
    extra = weight * (turns.numbers(groups, gain) - turns.numbers(groups, redundancy))
    rewards = tokens.rewards(groups) + tokens.at_ends(turns.read(groups), extra)
    return _over_tokens(groups, rewards, gamma=gamma, lam=lam, whiten=whiten)


def _over_tokens(groups: Sequence[Group], rewards: Floats, *, gamma: float, lam: float, whiten: bool) -> Credit:
    mask = tokens.mask(groups)
    paid, values = tokens.spread(rewards, mask), tokens.spread(tokens.stream(groups, "value"), mask)
    advantages, targets = returns.generalised_advantages(paid, values, mask, gamma=gamma, lam=lam)
    turns.fill(groups, "returns", targets[mask])
    return _credit(groups, advantages[mask], whiten)


def _credit(groups: Sequence[Group], advantages: Floats, whiten: bool) -> Credit:
    return tokens.nested(groups, statistics.whiten(advantages) if whiten else advantages)
