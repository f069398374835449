"""All sampled tokens of an update as flat arrays, and as (B, T) tables with a hole where something was read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from rl.methods.estimators import turn_table
from rl.methods.estimators.statistics import Bools, Floats, Ints
from rl.methods.estimators.turn_table import Credit, Turns
from rl.methods.options import PartError
from rl.records import Group


def mask(groups: Sequence[Group]) -> Bools:
    """(B, T), True on sampled tokens, with one hole before each turn that had something to read."""
    return turn_index(groups) >= 0


def turn_index(groups: Sequence[Group]) -> Ints:
    """(B, T), the turn of a sampled token; -1 in the hole before each turn that had something to read, and after."""
    played = turn_table.read(groups)
    holes = np.array([bool(turn.context) for turn in turn_table.turns_of(groups)], dtype=np.int64)
    spans = played.tokens + holes
    widths = np.bincount(played.trajectory, spans, minlength=len(played.returns)).astype(np.int64)
    table = np.full((len(widths), widths.max(initial=0)), -1, dtype=np.int64)
    begin = np.cumsum(spans) - spans
    turn = np.repeat(np.arange(len(spans)), spans)
    read = np.arange(len(turn)) - begin[turn] < holes[turn]
    table[np.arange(table.shape[1]) < widths[:, None]] = np.where(read, -1, played.index[turn])
    return table


def spread(tokens: Floats, mask: Bools) -> Floats:
    """Write a flat array over all sampled tokens to its places in (B, T)."""
    table = np.zeros(mask.shape)
    table[mask] = tokens
    return table


def rewards(groups: Sequence[Group]) -> Floats:
    """Flat, over all sampled tokens. The rewards of a trajectory add up to its entry of `group.rewards`."""
    played = turn_table.read(groups)
    return at_ends(played, played.reward)


def at_ends(played: Turns, per_turn: Floats) -> Floats:
    """Each turn's number (R,) on its last token, flat. A turn without tokens pays the token before it, or the first."""
    lengths = played.lengths
    begin = (np.cumsum(lengths) - lengths)[played.trajectory]
    place = np.maximum(np.cumsum(played.tokens) - 1, begin)
    heard = lengths[played.trajectory] > 0
    paid = np.zeros(lengths.sum())
    np.add.at(paid, place[heard], per_turn[heard])
    return paid


def stream(groups: Sequence[Group], name: str) -> Floats:
    """A stream, flat over all sampled tokens. Raises `PartError` when no score part has filled it."""
    played = turn_table.turns_of(groups)
    if missing := sum(name not in turn.streams for turn in played):
        raise PartError(f"credit reads the stream {name!r}, which {missing} of {len(played)} turns lack")
    return np.fromiter(chain.from_iterable(turn.streams[name] for turn in played), np.float64)


def sampler(groups: Sequence[Group]) -> Floats:
    """The log-probability under which each token was sampled, flat."""
    return np.fromiter(
        chain.from_iterable(turn.completion.logprobs for turn in turn_table.turns_of(groups)), np.float64
    )


def nested(groups: Sequence[Group], tokens: Floats) -> Credit:
    """Cut a flat array over all sampled tokens into groups and trajectories."""
    return turn_table.nested(groups, turn_table.read(groups).lengths, tokens)
