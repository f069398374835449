"""What the model holds in mind around each reply: its last hidden states, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rl.methods.inputs import Row
from rl.records import History, Trajectory

Hidden = Callable[[Sequence[Row]], np.ndarray]  # the last hidden states (M, E) that predict the tokens rows mark


def around_replies(hidden: Hidden, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
    """Per trajectory (turns, 2, E): the state before the first token of each reply, and that after its last.

    A turn without tokens has zeros.
    """
    rows: list[Row] = []
    places: list[tuple[int, int, int]] = []  # trajectory, turn, side: one for each state that is read
    index: list[int] = []  # the marked token, of all, in front of which it stands
    marked = 0
    for number, trajectory in enumerate(trajectories):
        for history in trajectory.sequences():
            at = _ends(history)
            if not at:
                continue
            tokens = sorted(set(at.values()))
            rows.append(_row(history, tokens, number))
            places += [(number, turn, side) for turn, side in at]
            index += [marked + tokens.index(token) for token in at.values()]
            marked += len(tokens)
    found = hidden(rows)
    states = [np.zeros((len(trajectory.turns), 2, found.shape[1])) for trajectory in trajectories]
    for (number, turn, side), place in zip(places, index, strict=True):
        states[number][turn, side] = found[place]
    return states


def _ends(history: History) -> dict[tuple[int, int], int]:
    """For each turn and side, the place of the token that comes next: a reply's first, and the one behind its last."""
    at: dict[tuple[int, int], int] = {}
    for place, turn in enumerate(history.turn):
        if turn >= 0:
            at.setdefault((turn, 0), place)
            at[turn, 1] = place + 1
    return at


def _row(history: History, tokens: Sequence[int], number: int) -> Row:
    """The history as a row whose sampled tokens are `tokens`; one more stands behind it, for what predicts it."""
    start = tokens[0]
    ids = np.array([*history.ids[start:], history.ids[-1]], np.int64)[: tokens[-1] - start + 1]
    mask = np.zeros(len(ids), np.bool_)
    mask[np.array(tokens) - start] = True
    none = np.zeros(len(ids), np.float32)
    turn = np.where(mask, 0, -1)
    return Row(tuple(history.ids[:start]), ids, mask, none, none, turn, {}, trajectory=number, group=0)
