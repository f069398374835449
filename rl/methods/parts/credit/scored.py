"""Credit that a score part has computed, or that it decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import critic_targets, token_table, turn_table
from rl.methods.estimators.statistics import Bools, Floats, Ints
from rl.methods.estimators.turn_table import TokenAdvantages
from rl.methods.options import AboveZero, NonNegative, Positive
from rl.methods.parts import STATES, traits
from rl.methods.parts.credit.state import group_by_state
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def scored(groups: Sequence[Group], norm: Normalization, *, stream: str = "reply_advantage") -> TokenAdvantages:
    """The numbers of `stream` as advantages of their tokens, unchanged; neither baseline nor scale is read.

    A stream is numbers per sampled token in `Turn.streams`, here those that a score part has written. Raises
    `PartError` where a turn lacks it.
    """
    return token_table.nest(groups, token_table.read_stream(groups, stream))


@traits(STATES)
def best_replies(
    groups: Sequence[Group], norm: Normalization, *, threshold: NonNegative = 0.05, stream: str = "reply_advantage"
) -> TokenAdvantages:
    """Digi-Q's extraction (arXiv:2502.15760): 1 on the best of a group's replies to a state, if it is good enough.

    Turns of a group that begin in the same state are compared by the numbers of `stream`, which a score part has
    written on each of a turn's tokens. The one with the largest is imitated if that is above `threshold`, a reply that
    was not valid counting as 0; all others have advantage 0. Neither baseline nor scale is read.
    """
    table, (advantages, valid, state) = turn_table.from_groups(groups), _replies(groups, stream)
    mask = critic_targets.best_replies(advantages, valid, state, threshold=threshold)
    return token_table.nest(groups, np.repeat(mask.astype(np.float64), table.num_tokens))


@traits(STATES)
def improved_policy(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    keep: AboveZero = 0.3125,
    temperature: Positive = 0.1,
    stream: str = "reply_value",
) -> TokenAdvantages:
    """PA-RL's targets (arXiv:2412.06685): replies to a state weigh as a policy that a critic has improved would.

    Of a group's valid replies to the same state, a share `keep` with the largest numbers of `stream` are candidates,
    weighed by the softmax of these numbers over `temperature`; the weights of a state have the mean 1. All others have
    0, and so have states with one reply. The shares are those of the paper: ten of 32. Neither baseline nor scale is
    read.
    """
    table, (values, valid, state) = turn_table.from_groups(groups), _replies(groups, stream)
    weights = critic_targets.improved_policy(values, valid, state, keep=keep, temperature=temperature)
    return token_table.nest(groups, np.repeat(weights, table.num_tokens))


def _replies(groups: Sequence[Group], stream: str) -> tuple[Floats, Bools, Ints]:
    """The number of `stream` on each turn's last token, whether its reply was valid, and a label of its state (R,)."""
    table = turn_table.from_groups(groups)
    numbers = token_table.read_stream(groups, stream)
    ends = np.cumsum(table.num_tokens)
    values = np.array([numbers[end - 1] if count else 0.0 for end, count in zip(ends, table.num_tokens, strict=True)])
    valid = np.array([turn.valid for turn in turn_table.turns_of(groups)], dtype=np.bool_)
    return values, valid, group_by_state(groups, table)
