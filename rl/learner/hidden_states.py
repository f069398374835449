"""The model's last hidden states before and after each reply, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rl.learner.batch import split_microbatches
from rl.learner.forward import hidden_states
from rl.methods.inputs import Row
from rl.records import History, Trajectory

# Rows to the last hidden states (M, E) that predict the M tokens in the rows' masks, row by row.
HiddenStates = Callable[[Sequence[Row]], np.ndarray]


def of_rows(model: Any, rows: Sequence[Row], device: torch.device, max_tokens: int) -> np.ndarray:
    """Return the last hidden states (M, E) of `model` that predict the sampled tokens, row by row, float64.

    A forward pass computes at most `max_tokens` tokens, or one row.
    """
    with torch.no_grad():
        parts = [
            hidden_states(model, part, device)
            for part in split_microbatches(rows, max_tokens, whole_trajectories=False)
        ]
    return torch.cat(parts).double().cpu().numpy()


def around_replies(compute: HiddenStates, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
    """Return the hidden states around each reply: per trajectory, an array (K, 2, E) over its K turns.

    `[k, 0]` is the hidden state before the first token of reply k (the one that predicts it), `[k, 1]` the one after
    its last token. A turn without sampled tokens has zeros. `compute(rows)` computes the states (M, E) that
    predict the M tokens under the rows' masks, row by row.
    """
    rows: list[Row] = []
    places: list[tuple[int, int, int]] = []  # trajectory, turn, side: one for each state that is read
    index: list[int] = []  # for each place, the number of the masked token, counted over all rows, that it predicts
    num_masked = 0
    for number, trajectory in enumerate(trajectories):
        for history in trajectory.sequences():
            next_tokens = _next_tokens(history)
            if not next_tokens:
                continue
            tokens = sorted(set(next_tokens.values()))
            rows.append(_row(history, tokens, number))
            places += [(number, turn, side) for turn, side in next_tokens]
            index += [num_masked + tokens.index(token) for token in next_tokens.values()]
            num_masked += len(tokens)
    states = compute(rows)
    per_turn = [np.zeros((len(trajectory.turns), 2, states.shape[1])) for trajectory in trajectories]
    for (number, turn, side), place in zip(places, index, strict=True):
        per_turn[number][turn, side] = states[place]
    return per_turn


def _next_tokens(history: History) -> dict[tuple[int, int], int]:
    """For each (turn, side), the index of the next token: the first of the reply, or the one behind its last."""
    indices: dict[tuple[int, int], int] = {}
    for i, turn in enumerate(history.turn):
        if turn >= 0:
            indices.setdefault((turn, 0), i)
            indices[turn, 1] = i + 1
    return indices


def _row(history: History, tokens: Sequence[int], number: int) -> Row:
    """The history as a row whose mask is `tokens`; one token is appended, so that the last state predicts something."""
    start = tokens[0]
    ids = np.array([*history.ids[start:], history.ids[-1]], np.int64)[: tokens[-1] - start + 1]
    mask = np.zeros(len(ids), np.bool_)
    mask[np.array(tokens) - start] = True
    zeros = np.zeros(len(ids), np.float32)
    turn = np.where(mask, 0, -1)
    images = tuple(history.images)
    return Row(tuple(history.ids[:start]), ids, mask, zeros, zeros, turn, {}, number, group=0, images=images)
