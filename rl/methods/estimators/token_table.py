"""All sampled tokens of an update, as flat arrays and as tables with a gap wherever the policy read something.

Legend: B trajectories, R turns, M sampled tokens of all of them in order, T positions of the longest trajectory: its
sampled tokens and one gap for each context that was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from rl.methods.estimators import turn_table
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints
from rl.methods.estimators.turn_table import TokenAdvantages, TurnTable
from rl.methods.options import PartError
from rl.records import Group


def sampled_mask(groups: Sequence[Group]) -> Bools:
    """Lay out the tokens of each trajectory as a row (B, T) that is True on sampled tokens.

    It is False in the one gap before each turn that had a context to read, and as padding. T is the longest row.
    """
    return turn_index(groups) >= 0


def turn_index(groups: Sequence[Group]) -> Ints:
    """Lay out the tokens as `sampled_mask` does: the index (B, T) of each sampled token's turn in its trajectory.

    It is -1 in the gap before each turn that had a context to read, and as padding.
    """
    table = turn_table.from_groups(groups)
    num_gaps = np.array([bool(turn.context) for turn in turn_table.turns_of(groups)], dtype=np.int64)
    widths = table.num_tokens + num_gaps  # of turns
    totals = np.bincount(table.trajectory, widths, minlength=len(table.returns)).astype(np.int64)
    index = np.full((len(totals), totals.max(initial=0)), -1, dtype=np.int64)
    begin = np.cumsum(widths) - widths
    turn = np.repeat(np.arange(len(widths)), widths)
    is_gap = np.arange(len(turn)) - begin[turn] < num_gaps[turn]
    index[np.arange(index.shape[1]) < totals[:, None]] = np.where(is_gap, -1, table.index[turn])
    return index


def scatter(per_token: Floats, mask: Bools) -> Floats:
    """A table (B, T) with `per_token` (M,) where `mask` (B, T) is True, and 0 elsewhere."""
    expect_shapes(per_token=(per_token, "M"), mask=(mask, "BT"))
    table = np.zeros(mask.shape)
    table[mask] = per_token
    return table


def token_rewards(groups: Sequence[Group]) -> Floats:
    """The reward of each sampled token (M,): a turn's reward lies on its last token.

    The rewards of a trajectory add up to its entry of `group.rewards`.
    """
    table = turn_table.from_groups(groups)
    return at_turn_ends(table, table.rewards)


def at_turn_ends(table: TurnTable, per_turn: Floats) -> Floats:
    """Place each turn's number, of `per_turn` (R,), on its last token: numbers (M,), 0 on other tokens.

    A turn without tokens adds its number to the token before it, or to the trajectory's first token. The number of a
    trajectory without tokens is lost.
    """
    expect_shapes(per_turn=(per_turn, "R"), index=(table.index, "R"))
    lengths = table.lengths
    begin = (np.cumsum(lengths) - lengths)[table.trajectory]
    place = np.maximum(np.cumsum(table.num_tokens) - 1, begin)
    has_tokens = lengths[table.trajectory] > 0
    per_token = np.zeros(lengths.sum())
    np.add.at(per_token, place[has_tokens], per_turn[has_tokens])
    return per_token


def read_stream(groups: Sequence[Group], name: str) -> Floats:
    """The stream `name`, numbers per sampled token in `Turn.streams`, of all tokens of the update (M,).

    Raises `PartError` when a turn lacks it, because no score part has filled it.
    """
    turns = turn_table.turns_of(groups)
    if missing := sum(name not in turn.streams for turn in turns):
        raise PartError(f"credit reads the stream {name!r}, which {missing} of {len(turns)} turns lack")
    return np.fromiter(chain.from_iterable(turn.streams[name] for turn in turns), np.float64)


def sampler_logprobs(groups: Sequence[Group]) -> Floats:
    """The log-probability (M,) under which each token was sampled."""
    return np.fromiter(
        chain.from_iterable(turn.completion.logprobs for turn in turn_table.turns_of(groups)), np.float64
    )


def nest(groups: Sequence[Group], per_token: Floats) -> TokenAdvantages:
    """Cut `per_token` (M,) into the tokens of each trajectory: `result[group][trajectory]`."""
    return turn_table.nest(groups, turn_table.from_groups(groups).lengths, per_token)
