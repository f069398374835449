"""Rows as tensors: packed tokens for the forward pass, each shared prefix once, and (B, T) columns for the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rl.methods.inputs import Labels, Row


class Columns:
    """The (B, T) side of some rows, right-padded, on `device`."""

    def __init__(self, rows: Sequence[Row], device: torch.device) -> None:
        self.rows, self.device = rows, device
        self.shape = (len(rows), max(row.size for row in rows))
        self.mask = self.padded(lambda row: row.mask, bool)

    def padded(self, of: Callable[[Row], np.ndarray], dtype: type = np.float32, fill: float = 0) -> Tensor:
        """One (B, T) tensor from one array per row."""
        out: np.ndarray = np.full(self.shape, fill, dtype)
        for i, row in enumerate(self.rows):
            out[i, : row.size] = of(row)
        return torch.as_tensor(out, device=self.device)

    def labels(self) -> Labels:
        """Whose rows these are."""
        return Labels(
            trajectory=torch.tensor([row.trajectory for row in self.rows], device=self.device),
            group=torch.tensor([row.group for row in self.rows], device=self.device),
            turn=self.padded(lambda row: row.turn, np.int64, -1),
            replayed=torch.tensor([row.replayed for row in self.rows], device=self.device),
        )

    def stream(self, name: str) -> Tensor | None:
        """A named stream, or None when a row lacks it."""
        if not all(name in row.streams for row in self.rows):
            return None
        return self.padded(lambda row: row.streams[name])

    def scatter(self, values: Tensor) -> Tensor:
        """Sampled-token values (M,), row by row, into (B, T) zeros; differentiable."""
        return torch.zeros(self.shape, dtype=values.dtype, device=self.device).masked_scatter(self.mask, values)


class Packing:
    """Packed tokens of some rows: every distinct prefix once, then every row's own tokens.

    Called as an `Attend` of `rl.policy.decoder`: prefixes attend causally to themselves, a row to its prefix and
    causally to itself, which is exactly what each full row would have computed on its own.
    """

    def __init__(self, rows: Sequence[Row], device: torch.device) -> None:
        prefixes = list(dict.fromkeys(row.prefix for row in rows))
        where = {prefix: i for i, prefix in enumerate(prefixes)}
        plen = np.array([len(prefix) for prefix in prefixes])
        slen = np.array([row.size for row in rows])
        of = np.array([where[row.prefix] for row in rows])
        pstart, sstart = np.cumsum(plen) - plen, np.cumsum(slen) - slen + plen.sum()
        ids = np.concatenate(
            [np.fromiter((t for p in prefixes for t in p), np.int64, int(plen.sum())), *(r.ids for r in rows)]
        )
        position = np.arange(len(ids)) - np.concatenate([np.repeat(pstart, plen), np.repeat(sstart - plen[of], slen)])
        self.ids, self.position = torch.as_tensor(ids, device=device), torch.as_tensor(position, device=device)
        self.longest = int((plen[of] + slen).max())
        self.prefix_tokens, self.widths = int(plen.sum()), (int(plen.max()), int(slen.max()))
        self.of = torch.as_tensor(of, device=device)
        self.prefix_pad, self.prefix_unpad = _pads(pstart, plen, device)
        self.row_pad, self.row_unpad = _pads(sstart - plen.sum(), slen, device)
        wide, long = self.widths
        causal = torch.ones(long, long, dtype=torch.bool, device=device).tril_()
        inside = torch.as_tensor(np.arange(wide) < plen[of][:, None], device=device)
        self.seen = torch.cat([inside[:, None].expand(-1, long, -1), causal.expand(len(rows), -1, -1)], -1)[:, None]
        self._bias: Tensor | None = None
        predict = [
            np.concatenate([[pstart[p] + plen[p] - 1], s + np.arange(n - 1)])
            for p, s, n in zip(of, sstart, slen, strict=True)
        ]
        self.predict = torch.as_tensor(
            np.concatenate([at[row.mask] for at, row in zip(predict, rows, strict=True)]), device=device
        )
        self.target = torch.as_tensor(np.concatenate([row.ids[row.mask] for row in rows]), device=device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `rl.policy.decoder.Attend`."""
        n, (wide, long) = self.prefix_tokens, self.widths
        gqa = q.shape[1] != k.shape[1]
        qp, kp, vp = (_padded(x[:n], self.prefix_pad, wide) for x in (q, k, v))
        qs, ks, vs = (_padded(x[n:], self.row_pad, long) for x in (q, k, v))
        yp = F.scaled_dot_product_attention(qp, kp, vp, is_causal=True, enable_gqa=gqa)
        keys, values = torch.cat([kp[self.of], ks], 2), torch.cat([vp[self.of], vs], 2)
        ys = F.scaled_dot_product_attention(qs, keys, values, attn_mask=self._mask(q.dtype), enable_gqa=gqa)
        return torch.cat([_packed(yp, self.prefix_unpad), _packed(ys, self.row_unpad)])

    def _mask(self, dtype: torch.dtype) -> Tensor:
        """What is seen, in numbers, once for all layers: of a boolean one each call would keep a copy of its own."""
        if self._bias is None or self._bias.dtype != dtype:
            self._bias = torch.zeros(self.seen.shape, dtype=dtype, device=self.seen.device)
            self._bias.masked_fill_(~self.seen, -torch.inf)
        return self._bias


def _pads(start: np.ndarray, length: np.ndarray, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
    """Index of packed tokens into a padded block and back; None when all are equally long, so that a view does it."""
    wide = int(length.max())
    if int(length.min()) == wide:
        return None, None
    column = np.arange(wide)
    inside = column < length[:, None]
    pad = np.where(inside, start[:, None] + column, start[:, None])
    return torch.as_tensor(pad.ravel(), device=device), torch.as_tensor(np.nonzero(inside.ravel())[0], device=device)


def _padded(x: Tensor, pad: Tensor | None, wide: int) -> Tensor:
    """(N, H, D) -> (B, H, wide, D)."""
    x = x if pad is None else x.index_select(0, pad)
    return x.view(-1, wide, *x.shape[1:]).transpose(1, 2)


def _packed(y: Tensor, unpad: Tensor | None) -> Tensor:
    """(B, H, wide, D) -> (N, H * D)."""
    y = y.transpose(1, 2).flatten(2).flatten(0, 1)
    return y if unpad is None else y.index_select(0, unpad)
