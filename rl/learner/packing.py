"""Rows as tensors: packed tokens for the forward pass, every shared prefix once, and (B, T) columns for the loss.

Legend: B rows, T tokens of the longest row, P distinct prefixes, N packed tokens, M sampled tokens, H heads, D head
size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl.learner.attention import attend
from rl.methods.inputs import Labels, Row
from rl.policy.gpu.varlen import Spans

MIN_OPENING = 128  # tokens; shorter common openings are computed once for each prefix


class Columns:
    """The arrays of some rows as right-padded (B, T) tensors on `device`. The rows' prefixes are left out."""

    def __init__(self, rows: Sequence[Row], device: torch.device) -> None:
        self.rows, self.device = rows, device
        self.shape = (len(rows), max(row.size for row in rows))
        self.mask = self.pad(lambda row: row.mask, bool)  # (B, T), True where sampled

    def pad(self, column: Callable[[Row], np.ndarray], dtype: type = np.float32, fill: float = 0) -> Tensor:
        """Return one (B, T) tensor from `column(row)` (row.size,) of every row, padded with `fill`."""
        out: np.ndarray = np.full(self.shape, fill, dtype)
        for i, row in enumerate(self.rows):
            out[i, : row.size] = column(row)
        return torch.as_tensor(out, device=self.device)

    def labels(self) -> Labels:
        """Return which trajectory (B,), group (B,) and turn (B, T) each row has, and whether it is replayed (B,).

        The turn is that of each sampled token, -1 elsewhere.
        """
        return Labels(
            trajectory=torch.tensor([row.trajectory for row in self.rows], device=self.device),
            group=torch.tensor([row.group for row in self.rows], device=self.device),
            turn=self.pad(lambda row: row.turn, np.int64, -1),
            replayed=torch.tensor([row.replayed for row in self.rows], device=self.device),
        )

    def stream(self, name: str) -> Tensor | None:
        """The per-token numbers that the rows carry under `name`, such as "value": right-padded (B, T).

        None if a row has none.
        """
        if not all(name in row.streams for row in self.rows):
            return None
        return self.pad(lambda row: row.streams[name])

    def scatter(self, values: Tensor) -> Tensor:
        """Put the values (M,) of the sampled tokens, row by row, into a (B, T) table of zeros; differentiable."""
        return torch.zeros(self.shape, dtype=values.dtype, device=self.device).masked_scatter(self.mask, values)


class Packing:
    """The tokens of some rows in one packed sequence (N,): every distinct prefix once, then every row's own tokens.

    An instance is the attention of its tokens (`rl.policy.decoder.AttentionFn`): a prefix attends causally to itself, a
    row to its prefix and causally to itself. Every row gets the hidden states that it would get when computed alone.
    Where the prefixes of different tasks begin with the same long opening (`opening_length`), such as the rules of an
    environment, that opening is the one prefix, and the rest of each prefix is computed with the row.

    `ids` and `position` (N,) are the packed tokens and their positions, all below `max_length`; `predict` (M,) indexes
    the packed tokens that predict the sampled ones, which are `target` (M,).
    """

    def __init__(self, rows: Sequence[Row], device: torch.device) -> None:
        opening = opening_length([row.prefix for row in rows])
        # The rest of a prefix behind the opening, which is computed with its row; empty without an opening.
        tails = [row.prefix[opening:] if opening else () for row in rows]
        prefixes = list(dict.fromkeys(row.prefix[: opening or None] for row in rows))
        prefix_index = {prefix: i for i, prefix in enumerate(prefixes)}
        prefix_length = np.array([len(prefix) for prefix in prefixes])
        tail_length = np.array([len(tail) for tail in tails])
        row_length = np.array([row.size for row in rows]) + tail_length
        prefix_of = np.array([prefix_index[row.prefix[: opening or None]] for row in rows])
        prefix_start = np.cumsum(prefix_length) - prefix_length
        row_start = np.cumsum(row_length) - row_length + prefix_length.sum()
        ids = np.concatenate(
            [
                np.fromiter((t for p in prefixes for t in p), np.int64, int(prefix_length.sum())),
                *(np.asarray(ids) for r, tail in zip(rows, tails, strict=True) for ids in (tail, r.ids) if len(ids)),
            ]
        )
        first_position = np.concatenate(
            [np.repeat(prefix_start, prefix_length), np.repeat(row_start - prefix_length[prefix_of], row_length)]
        )
        position = np.arange(len(ids)) - first_position
        self.ids, self.position = torch.as_tensor(ids, device=device), torch.as_tensor(position, device=device)
        self.max_length = int((prefix_length[prefix_of] + row_length).max())
        self.prefix_tokens = int(prefix_length.sum())
        self.widths = (int(prefix_length.max()), int(row_length.max()))
        self.prefix_of = torch.as_tensor(prefix_of, device=device)  # (B,)
        self.prefix_pad, self.prefix_unpad = _pad_indices(prefix_start, prefix_length, device)
        self.row_pad, self.row_unpad = _pad_indices(row_start - prefix_length.sum(), row_length, device)
        self.prefix_length = torch.as_tensor(prefix_length[prefix_of], device=device)  # (B,)
        self._lengths = prefix_length, row_length, prefix_of
        self.windows: set[int | None] = set()  # those that a model's layers asked for
        self._masks: dict[tuple[Any, ...], Tensor] = {}
        # Where no prefix is shared, how each whole sequence is padded and back; None if any is.
        self.unshared: tuple[Tensor, Tensor] | None = None
        if not opening and len(prefixes) == len(rows):
            sequence = np.concatenate([np.repeat(np.arange(len(rows)), n) for n in (prefix_length, row_length)])
            self.unshared = _whole_indices(sequence, position, prefix_start, self.max_length, device)
        predict = [
            np.concatenate([[prefix_start[p] + prefix_length[p] - 1], start + np.arange(n - 1)])
            for p, start, n in zip(prefix_of, row_start, row_length, strict=True)
        ]
        self.predict = torch.as_tensor(
            np.concatenate([at[n:][row.mask] for at, n, row in zip(predict, tail_length, rows, strict=True)]),
            device=device,
        )
        self.target = torch.as_tensor(np.concatenate([row.ids[row.mask] for row in rows]), device=device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `rl.policy.decoder.AttentionFn`."""
        return attend(self, q, k, v).flatten(1)

    @cached_property
    def spans(self) -> Spans:
        """Where the sequences begin, for attention that takes no masks."""
        return Spans.of(*self._lengths, self.ids.device)

    def causal_mask(self, width: int, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """Return the additive mask (width, width) of sequences that attend to themselves, made once for all layers.

        None without a `window`: it is causal and nothing else. Additive, since of a boolean mask every call of the
        attention would keep a copy.
        """
        if window is None:
            return None
        key = width, window, dtype
        if key not in self._masks:
            place = torch.arange(width, device=self.ids.device)
            distance = place[:, None] - place
            self._masks[key] = _additive((distance >= 0) & (distance < window), dtype)
        return self._masks[key]

    def row_mask(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """Return the additive mask (B, 1, T, prefix width + T) of the rows over their keys, made once for all layers.

        The keys are those of the prefix, padded to the widest, and the row's own.
        """
        key = window, dtype
        if key not in self._masks:
            prefix_width, device = self.widths[0], self.ids.device
            in_prefix, in_row = (torch.arange(width, device=device) for width in self.widths)
            query = self.prefix_length[:, None] + in_row  # (B, T) positions of a row's tokens
            keys = torch.cat([in_prefix.expand(len(query), -1), query], 1)  # (B, prefix width + T)
            visible = keys[:, None] <= query[:, :, None]
            visible[:, :, :prefix_width] &= (in_prefix < self.prefix_length[:, None])[:, None]
            if window is not None:
                visible &= query[:, :, None] - keys[:, None] < window
            self._masks[key] = _additive(visible[:, None], dtype)
        return self._masks[key]


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """A boolean mask as numbers to add to scores: 0 where it is True, else minus infinity."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, -torch.inf)


def opening_length(prefixes: Sequence[tuple[int, ...]]) -> int:
    """Return the number of tokens with which the `prefixes` of all rows begin, if it pays to compute them once; else 0.

    It pays if they are at least `MIN_OPENING`, and if they and the rest of each row's prefix are at most half as many
    tokens as the distinct prefixes. A single prefix has no opening: it is computed once anyway.
    """
    distinct = set(prefixes)
    if len(distinct) < 2:
        return 0
    first, last = min(distinct), max(distinct)  # in lexical order, the two that have the least in common
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    tokens = length + sum(len(prefix) - length for prefix in prefixes)
    return length if length >= MIN_OPENING and 2 * tokens <= sum(map(len, distinct)) else 0


def _pad_indices(start: np.ndarray, length: np.ndarray, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
    """Indices of packed tokens into a padded block and back; None if all lengths are equal, so that a view does it."""
    width = int(length.max())
    if int(length.min()) == width:
        return None, None
    column = np.arange(width)
    inside = column < length[:, None]
    pad = np.where(inside, start[:, None] + column, start[:, None])
    return torch.as_tensor(pad.ravel(), device=device), torch.as_tensor(np.nonzero(inside.ravel())[0], device=device)


def _whole_indices(
    sequence: np.ndarray, position: np.ndarray, first: np.ndarray, width: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Indices of packed tokens (N,) into a padded block of whole sequences and back.

    `sequence` and `position` (N,) say where a token stands, `first` (B,) which is the first of each sequence.
    """
    back = sequence * width + position
    pad = np.repeat(first, width)
    pad[back] = np.arange(len(back))
    return torch.as_tensor(pad, device=device), torch.as_tensor(back, device=device)
