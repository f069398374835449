"""Credit from the group as a graph: its states are nodes, and what follows a state is averaged over all who came by.

Legend: B trajectories, R turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import states, statistics, token_table, turn_table
from rl.methods.estimators.statistics import Floats, Ints
from rl.methods.estimators.turn_table import TokenAdvantages, TurnTable
from rl.methods.options import NonNegative, Share
from rl.methods.parts import BASELINE, STATES, needs, traits
from rl.methods.parts.credit.state import group_by_state
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization

ROUNDING = 1e-9  # of the largest return: a difference this small is a rounding error of 0


@traits(BASELINE, STATES, expects={"baseline": ("none", "group_mean")})
@needs("square", when="weigh")
def graph_values(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    lam: Share = 0.5,
    markov_lam: Share = 0.0,
    kappa: NonNegative = 2.0,
    gamma: Share = 1.0,
    clock: bool = True,
    adapt: bool = False,
    gate: bool = False,
    weigh: bool = False,
) -> TokenAdvantages:
    """What a turn led to, less a shrunken mean of what the other members' turns in the same state led to.

    A turn is worth its reward and then, backwards from the last turns, the mean worth of *all* members' turns in the
    state that it led to (`states.merge_values`). Its baseline is `(sum of the n others in its state + kappa * b) / (n +
    kappa)`, where `b` is the mean return of the other members from the same turn on; one whose episode is over stands
    with its last. Where no state is shared this is RLOO.

    Unbiased for any fixed `kappa` where `Turn.state` with the number of turns is Markov, the policy's view included:
    what is read of the past and not in the state must not change what the policy does. Elsewhere merged values are
    biased by what the state leaves out, the more the smaller the `lam`; `lam=1` is unbiased always. A group of one has
    advantage 0. `norm.baseline` is not read; `norm.scale` measures returns, once per trajectory.

    Args:
        groups: Groups whose turns have a state.
        norm: Its scale divides advantages.
        lam: Weight of a turn's own return against merged values.
        markov_lam: The same in groups whose environment declares its state Markov (`info["markov"]`).
        kappa: How many visits by others the fallback `b` counts for.
        gamma: Discount per turn.
        clock: Whether turns of different number are in different states; without it more is shared, with a bias by the
            number of turns that are left.
        adapt: Estimate `kappa` from the batch, for each turn number (`states.shrinkage`); biased in small batches.
        gate: Multiply by `(n + kappa) / (n + kappa + 1)`: a state met once earns little where states settle the
            outcome. Biased in size, not in sign.
        weigh: Weigh returns in baselines by the squared length of the turn's score in logits, the weights of least
            variance; `b` is then one number for all turns of a trajectory. It takes a forward pass more.
    """
    table = turn_table.from_groups(groups)
    place = group_by_state(groups, table)
    if clock:
        place = turn_table.group_ids(place, table.index)
    returns = turn_table.returns_to_go(table, table.rewards, gamma=gamma)
    own_weight = _own_weights(groups, table, lam, markov_lam)
    following, sweeps = _next_rows(table), int(table.index.max(initial=0)) + 1
    worth = states.merge_values(table.rewards, returns, place, following, lam=own_weight, gamma=gamma, sweeps=sweeps)
    weight = _squared_scores(groups, table) if weigh else None
    base, unit = _fallback(table, returns, weight)
    visits = states.shrinkage(worth, base, place, table.trajectory, table.index) if adapt else kappa
    number, total = states.sums_of_others(worth, weight, place, table.trajectory)
    mass = number + visits * unit
    advantages = worth - np.where(mass > 0, (total + visits * unit * base) / np.where(mass > 0, mass, 1.0), base)
    if gate:
        advantages *= mass / np.where(mass > 0, mass + unit, 1.0)
    is_alone = statistics.group_size(table.group)[table.trajectory] == 1
    advantages[is_alone | (np.abs(advantages) <= ROUNDING * np.abs(returns).max(initial=1.0))] = 0.0
    factor = turn_table.inverse_unit(table.returns, table.group, norm)
    return turn_table.turns_to_tokens(groups, table, advantages * factor[table.trajectory])


def _own_weights(groups: Sequence[Group], table: TurnTable, lam: float, markov_lam: float) -> Floats:
    """The weight of each turn's own return (R,): `markov_lam` in groups that declare their state Markov."""
    is_markov = np.array([all(t.markov for t in group.trajectories) for group in groups], dtype=bool)
    return np.where(is_markov, markov_lam, lam)[table.turn_group]


def _fallback(table: TurnTable, returns: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
    """The baseline of a state that no other met (R,), and the unit (R,) of weights: what one visit counts for."""
    if weight is not None:
        mass, total = states.sums_of_others(returns, weight, table.turn_group, table.trajectory)
        base = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), 0.0)
        # Of the others' same turn: own weights, or weights of turns after it, would bias the update.
        same_turn = turn_table.group_ids(table.turn_group, table.index)
        others = np.maximum(statistics.group_size(same_turn) - 1, 1)
        return base, (np.bincount(same_turn, weight)[same_turn] - weight) / others
    return turn_table.mean_of_others(table, returns), np.ones(len(returns))


def _next_rows(table: TurnTable) -> Ints:
    """The row of each turn's successor in its trajectory (R,); -1 for the last turn."""
    rows = np.arange(len(table.index))
    return np.where(table.index + 1 < table.num_turns[table.trajectory], rows + 1, -1)


def _squared_scores(groups: Sequence[Group], table: TurnTable) -> Floats:
    """The squared length of each turn's score in logits (R,): the sum over its tokens of `1 - 2 p + sum of p^2`."""
    energy = 1 - 2 * np.exp(token_table.sampler_logprobs(groups)) + token_table.read_stream(groups, "square")
    owner = np.repeat(np.arange(len(table.index)), table.num_tokens)
    return np.bincount(owner, energy, minlength=len(table.index)).astype(np.float64)
