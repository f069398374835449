"""Rows as tensors: packed tokens for the forward pass, every shared prefix once, and (B, T) columns for the loss.

Legend: B rows, T tokens of the longest row, P distinct prefixes, N packed tokens, M sampled tokens, H heads, D head
size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rl.methods.inputs import Labels, Row

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
        prefix_width, row_width = self.widths
        causal = torch.ones(row_width, row_width, dtype=torch.bool, device=device).tril_()
        in_prefix = torch.as_tensor(np.arange(prefix_width) < prefix_length[prefix_of][:, None], device=device)
        # (B, 1, T, prefix width + T): the keys that each token of a row attends to
        self.visible = torch.cat([in_prefix[:, None].expand(-1, row_width, -1), causal.expand(len(rows), -1, -1)], -1)[
            :, None
        ]
        self._bias: Tensor | None = None
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
        n, (prefix_width, row_width) = self.prefix_tokens, self.widths
        gqa = q.shape[1] != k.shape[1]
        qp, kp, vp = (_pad(x[:n], self.prefix_pad, prefix_width) for x in (q, k, v))
        qr, kr, vr = (_pad(x[n:], self.row_pad, row_width) for x in (q, k, v))
        yp = F.scaled_dot_product_attention(qp, kp, vp, is_causal=True, enable_gqa=gqa)
        keys, values = torch.cat([kp[self.prefix_of], kr], 2), torch.cat([vp[self.prefix_of], vr], 2)
        yr = F.scaled_dot_product_attention(qr, keys, values, attn_mask=self._mask(q.dtype), enable_gqa=gqa)
        return torch.cat([_pack(yp, self.prefix_unpad), _pack(yr, self.row_unpad)])

    def _mask(self, dtype: torch.dtype) -> Tensor:
        """`visible` as an additive mask, made once for all layers: of a boolean one every call would keep a copy."""
        if self._bias is None or self._bias.dtype != dtype:
            self._bias = torch.zeros(self.visible.shape, dtype=dtype, device=self.visible.device)
            self._bias.masked_fill_(~self.visible, -torch.inf)
        return self._bias


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


def _pad(x: Tensor, pad: Tensor | None, width: int) -> Tensor:
    """(N, H, D) -> (B, H, width, D)."""
    x = x if pad is None else x.index_select(0, pad)
    return x.view(-1, width, *x.shape[1:]).transpose(1, 2)


def _pack(y: Tensor, unpad: Tensor | None) -> Tensor:
    """(B, H, width, D) -> (N, H * D)."""
    y = y.transpose(1, 2).flatten(2).flatten(0, 1)
    return y if unpad is None else y.index_select(0, unpad)
