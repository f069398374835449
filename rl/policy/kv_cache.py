"""The key-value cache of the `hf` engine: a block of memory per slot, moved so that active slots are neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

MIN_SHARED = 16  # shorter common prefixes are computed anew, not copied


class KVCache:
    """Keys, values and token ids of up to `slots` sequences of up to `context` tokens.

    `ids[s, :num_tokens[s]]` are the tokens of slot `s`; the keys and values of the first `num_cached[s]` of them are in
    `kv`, which is (layers, 2, rows, kv_heads, length, head_dim). Memory is allocated as needed, in doublings of rows
    and length, up to `slots` x `context`. Where that is more than `tokens`, the memory for these is allocated at once,
    and divided into fewer rows the longer the sequences are (`resize`).
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
        tokens: int | None = None,
    ) -> None:
        """Start empty; nothing is allocated until `reserve` or `resize`. `tokens` are at least `context`."""
        self.slots, self.context = slots, context
        self.tokens = slots * context if tokens is None else tokens
        self.kv = torch.zeros(layers, 2, 0, kv_heads, 0, head_dim, device=device, dtype=dtype)
        self._memory: torch.Tensor | None = None  # what `resize` divides
        self.ids = np.zeros((0, 0), np.int64)
        self.num_tokens = np.zeros(0, np.int64)
        self.num_cached = np.zeros(0, np.int64)

    @property
    def rows(self) -> int:
        """Number of slots (sequences) that memory is allocated for so far."""
        return len(self.num_tokens)

    @property
    def length(self) -> int:
        """Number of tokens that each of these slots has memory for."""
        return self.ids.shape[1]

    @property
    def is_bounded(self) -> bool:
        """Whether there is no memory for all slots at full length, so that `resize` divides it, and not `reserve`."""
        return self.tokens < self.slots * self.context

    def block(self, length: int) -> int:
        """Return the length of slots, in steps of an eighth, that holds sequences of `length` tokens."""
        step = max(32, _round_up(length, 8) // 8)
        return min(self.context, max(1, -(-length // step)) * step)

    def capacity(self, length: int) -> int:
        """Return how many slots there are at most for sequences of `length` tokens, at least 1."""
        return min(self.slots, self.tokens // self.block(length))

    def resize(self, rows: int, length: int) -> None:
        """Divide the memory into `rows` slots of `length` tokens, in place, a layer at a time.

        The first rows keep their contents, up to `length` tokens.
        """
        layers, two, old_rows, heads, old_length, dim = self.kv.shape
        if self._memory is None:
            self._memory = self.kv.new_zeros(layers, two, self.tokens * heads * dim)
        num_rows = min(rows, old_rows)
        ids, num_tokens, num_cached = (
            np.zeros((rows, length), np.int64),
            np.zeros(rows, np.int64),
            np.zeros(rows, np.int64),
        )
        width = min(length, old_length)
        ids[:num_rows, :width] = self.ids[:num_rows, :width]
        num_tokens[:num_rows] = np.minimum(self.num_tokens[:num_rows], length)
        num_cached[:num_rows] = np.minimum(self.num_cached[:num_rows], length)
        self.ids, self.num_tokens, self.num_cached = ids, num_tokens, num_cached
        old = self.kv
        self.kv = self._memory[:, :, : rows * heads * length * dim].unflatten(-1, (rows, heads, length, dim))
        width = int(num_cached.max(initial=0))
        for layer in range(layers if width else 0):
            self.kv[layer, :, :num_rows, :, :width] = old[layer, :, :num_rows, :, :width].clone()

    def reserve(self, rows: int, length: int) -> None:
        """Allocate at least `rows` slots of `length` tokens, bounded by `slots` and `context`; contents are kept."""
        rows, length = min(rows, self.slots), min(length, self.context)
        old_rows, old_length = self.ids.shape
        if rows <= old_rows and length <= old_length:
            return
        rows = min(self.slots, max(old_rows, _round_up(rows, 8))) if rows > old_rows else old_rows
        length = min(self.context, max(old_length, _round_up(length, 64))) if length > old_length else old_length
        layers, two, _, heads, _, dim = self.kv.shape
        kv = self.kv.new_zeros(layers, two, rows, heads, length, dim)
        kv[:, :, :old_rows, :, :old_length] = self.kv
        self.kv = kv
        ids = np.zeros((rows, length), np.int64)
        ids[:old_rows, :old_length] = self.ids
        self.ids = ids
        self.num_tokens = np.concatenate([self.num_tokens, np.zeros(rows - old_rows, np.int64)])
        self.num_cached = np.concatenate([self.num_cached, np.zeros(rows - old_rows, np.int64)])

    def write(self, slot: int, ids: Sequence[int], keep: int) -> None:
        """Set the token ids of `slot`; at most the keys and values of its first `keep` positions stay cached."""
        self.ids[slot, : len(ids)] = ids
        self.num_tokens[slot] = len(ids)
        self.num_cached[slot] = min(keep, int(self.num_cached[slot]))

    def common_prefix(self, slot: int, ids: Sequence[int]) -> int:
        """Return how many leading tokens of `ids` are cached in `slot`."""
        n = min(int(self.num_cached[slot]), len(ids))
        differs = np.nonzero(self.ids[slot, :n] != np.asarray(ids[:n], np.int64))[0]
        return int(differs[0]) if len(differs) else n

    def share_prefix(self, slot: int, ids: Sequence[int]) -> int:
        """Copy a longer cached prefix of `ids` from another slot if there is one; return how many tokens are cached.

        The common prefix of an episode's forks is computed once this way. Prefixes below `MIN_SHARED` tokens are not
        copied.
        """
        keep = self.common_prefix(slot, ids)
        target = np.asarray(ids[: self.ids.shape[1]], np.int64)
        if len(ids) < MIN_SHARED or keep >= len(target):
            return keep
        # A prefix is longer only where the next token is cached too: few slots of many.
        slots = np.nonzero((self.num_cached > keep) & (self.ids[:, keep] == target[keep]))[0]
        if not len(slots):
            return keep
        differs = self.ids[slots, : len(target)] != target
        equal_tokens = np.where(differs.any(1), differs.argmax(1), len(target))
        lengths = np.minimum(equal_tokens, self.num_cached[slots])
        length, best = int(lengths.max()), int(slots[lengths.argmax()])
        if length < max(MIN_SHARED, keep + 1):
            return keep
        self.kv[:, :, slot, :, keep:length] = self.kv[:, :, best, :, keep:length]
        self.num_cached[slot] = length
        return length

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Copy slots `source` to `target`, all at once: every source is read before any target is written."""
        if not source:
            return
        s, t = np.asarray(source), np.asarray(target)
        length = int(self.num_cached[s].max())
        if length:
            self.kv[:, :, torch.as_tensor(t), :, :length] = self.kv[:, :, torch.as_tensor(s), :, :length]
        self.ids[t], self.num_tokens[t], self.num_cached[t] = self.ids[s], self.num_tokens[s], self.num_cached[s]

    def copy(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Give each `target` slot the cached keys and values of its `source`; token ids are not touched."""
        length = int(self.num_cached[np.asarray(source)].max())
        self.kv[:, :, torch.as_tensor(target), :, :length] = self.kv[:, :, torch.as_tensor(source), :, :length]
        self.num_cached[np.asarray(target)] = self.num_cached[np.asarray(source)]

    def invalidate(self) -> None:
        """Drop all keys and values, because the weights changed; token ids stay."""
        self.num_cached[:] = 0


def _round_up(n: int, minimum: int) -> int:
    """The next power of two that is at least `n` and `minimum`."""
    return max(minimum, 1 << (n - 1).bit_length())
