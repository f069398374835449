"""The key-value cache of the sampling engine: a static block per slot, moved so that live slots are neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

SHARED = 16  # tokens that are worth a copy


class SlotCache:
    """Keys, values and token ids of up to `slots` sequences of up to `context` tokens.

    `ids[s, :known[s]]` are the tokens of slot `s`; the keys and values of the first `cached[s]` of them are stored.
    Memory is taken as needed, in doublings, up to `slots` x `context`.
    """

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        slots: int,
        context: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Start empty; nothing is allocated until `reserve`."""
        self.slots, self.context = slots, context
        self.kv = torch.zeros(layers, 2, 0, kv_heads, 0, head_dim, device=device, dtype=dtype)
        self.ids = np.zeros((0, 0), np.int64)
        self.known = np.zeros(0, np.int64)
        self.cached = np.zeros(0, np.int64)

    @property
    def rows(self) -> int:
        """Slots allocated so far."""
        return len(self.known)

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` slots of `length` tokens, or for as much as is allowed, keeping what is stored."""
        rows, length = min(rows, self.slots), min(length, self.context)
        have_rows, have_length = self.ids.shape
        if rows <= have_rows and length <= have_length:
            return
        rows = min(self.slots, max(have_rows, _doubled(rows, 8))) if rows > have_rows else have_rows
        length = min(self.context, max(have_length, _doubled(length, 64))) if length > have_length else have_length
        layers, two, _, heads, _, dim = self.kv.shape
        kv = self.kv.new_zeros(layers, two, rows, heads, length, dim)
        kv[:, :, :have_rows, :, :have_length] = self.kv
        self.kv = kv
        ids = np.zeros((rows, length), np.int64)
        ids[:have_rows, :have_length] = self.ids
        self.ids = ids
        self.known = np.concatenate([self.known, np.zeros(rows - have_rows, np.int64)])
        self.cached = np.concatenate([self.cached, np.zeros(rows - have_rows, np.int64)])

    def write(self, slot: int, ids: Sequence[int], keep: int) -> None:
        """Set the tokens of `slot`; its first `keep` cached positions stay valid."""
        self.ids[slot, : len(ids)] = ids
        self.known[slot] = len(ids)
        self.cached[slot] = min(keep, int(self.cached[slot]))

    def common(self, slot: int, ids: Sequence[int]) -> int:
        """How many leading tokens of `ids` are cached in `slot`."""
        n = min(int(self.cached[slot]), len(ids))
        differs = np.nonzero(self.ids[slot, :n] != np.asarray(ids[:n], np.int64))[0]
        return int(differs[0]) if len(differs) else n

    def share(self, slot: int, ids: Sequence[int]) -> int:
        """How many leading tokens of `ids` are cached in `slot`, which first copies what another has more of.

        So what forks of an episode have in common is computed once. Fewer than `SHARED` are not worth it.
        """
        keep = self.common(slot, ids)
        if len(ids) < SHARED or not self.cached.any():
            return keep
        wanted = np.asarray(ids[: self.ids.shape[1]], np.int64)
        differs = self.ids[:, : len(wanted)] != wanted
        alike = np.where(differs.any(1), differs.argmax(1), len(wanted))
        found = np.minimum(alike, self.cached)
        best = int(found.argmax())
        if found[best] < max(SHARED, keep + 1):
            return keep
        length = int(found[best])
        self.kv[:, :, slot, :, keep:length] = self.kv[:, :, best, :, keep:length]
        self.cached[slot] = length
        return length

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Copy slots `source` to `target`, all at once: every source is read before any target is written."""
        if not source:
            return
        s, t = np.asarray(source), np.asarray(target)
        length = int(self.cached[s].max())
        if length:
            self.kv[:, :, torch.as_tensor(t), :, :length] = self.kv[:, :, torch.as_tensor(s), :, :length]
        self.ids[t], self.known[t], self.cached[t] = self.ids[s], self.known[s], self.cached[s]

    def copy(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Give each `target` slot the cached positions of its `source`; tokens are not touched."""
        length = int(self.cached[np.asarray(source)].max())
        self.kv[:, :, torch.as_tensor(target), :, :length] = self.kv[:, :, torch.as_tensor(source), :, :length]
        self.cached[np.asarray(target)] = self.cached[np.asarray(source)]

    def forget(self) -> None:
        """Drop all keys and values (the weights changed); tokens stay."""
        self.cached[:] = 0


def _doubled(n: int, least: int) -> int:
    return max(least, 1 << (n - 1).bit_length())
