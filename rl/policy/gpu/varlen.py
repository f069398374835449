"""Attention of packed tokens on a GPU by FlashAttention's kernel for sequences of different lengths (arXiv:2307.08691).

It takes no mask, no padding, and fewer key-value heads than query heads. It has no soft caps and no sinks, and computes
in half precision alone; `rl.learner.attention` computes the rest.

Legend: N packed tokens, B rows, K tokens of all rows with each row's prefix before it, H heads, Hk key-value heads, D
size of a head.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# (queries, keys, values, starts of queries, starts of keys, most queries, most keys, scale=, window_size=) -> outputs
VarlenAttention = Callable[..., Any]
DTYPES = (torch.float16, torch.bfloat16)
MAX_HEAD_SIZE, HEAD_SIZE_STEP = 256, 8  # what the kernel takes
MIN_CAPABILITY = (8, 0)


class Spans(NamedTuple):
    """Where packed sequences begin, with the total behind the last, int32; the most tokens of one are numbers."""

    prefix_tokens: int
    prefix_starts: Tensor  # (prefixes + 1,)
    longest_prefix: int
    row_starts: Tensor  # (B + 1,), counted from the first row
    longest_row: int
    key_starts: Tensor  # (B + 1,) in `keys`
    longest_keys: int
    keys: Tensor  # (K,) packed tokens that a row attends to: its prefix, then its own
    own_places: Tensor  # (N - prefix tokens,) where each token of a row is in `keys`
    shared_places: Tensor  # where the tokens of prefixes are in `keys`, those of the first one first
    shared_starts: Tensor  # (prefix tokens,) where the places of each begin in `shared_places`

    @classmethod
    def of(
        cls, prefix_length: np.ndarray, row_length: np.ndarray, prefix_of: np.ndarray, device: torch.device
    ) -> Spans:
        """Return the spans of distinct prefixes, and behind them rows that continue the prefixes `prefix_of` (B,)."""
        prefix_starts, row_starts = _starts(prefix_length), _starts(row_length)
        key_length = prefix_length[prefix_of] + row_length
        key_starts = _starts(key_length)
        place = np.arange(key_starts[-1]) - np.repeat(key_starts[:-1], key_length)  # within a row's keys
        of_prefix, of_row = prefix_starts[:-1][prefix_of], prefix_starts[-1] + row_starts[:-1]
        length = prefix_length[prefix_of]
        first, own = np.repeat(of_prefix, key_length), np.repeat(of_row - length, key_length)
        is_shared = place < np.repeat(length, key_length)
        keys = np.where(is_shared, first, own) + place
        of_prefixes = np.flatnonzero(is_shared)
        of_prefixes = of_prefixes[np.argsort(keys[of_prefixes], kind="stable")]
        count = np.bincount(keys[of_prefixes], minlength=prefix_starts[-1])

        def tensor(values: np.ndarray, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.as_tensor(values, dtype=dtype, device=device)

        return cls(
            int(prefix_starts[-1]),
            tensor(prefix_starts),
            int(prefix_length.max()),
            tensor(row_starts),
            int(row_length.max()),
            tensor(key_starts),
            int(key_length.max()),
            *(tensor(x, torch.int64) for x in (keys, np.flatnonzero(~is_shared), of_prefixes, _starts(count)[:-1])),
        )


def is_served(q: Tensor, v: Tensor) -> bool:
    """Whether the kernel computes attention for queries `q` (N, H, D) and values `v` on their device."""
    if not q.is_cuda:
        return False
    fits = q.dtype in DTYPES and q.shape[-1] == v.shape[-1] and is_head_served(q.shape[-1])
    return fits and _is_built() and torch.cuda.get_device_capability(q.device) >= MIN_CAPABILITY


def is_head_served(size: int) -> bool:
    """Whether the kernel takes heads of this size."""
    return size <= MAX_HEAD_SIZE and size % HEAD_SIZE_STEP == 0


@cache
def _is_built() -> bool:
    """Whether this torch has the kernel for NVIDIA's GPUs; that for AMD's was not tried."""
    return torch.version.hip is None and torch.backends.cuda.is_flash_attention_available()


def attend_spans(
    spans: Spans,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    attention: VarlenAttention | None = None,
) -> Tensor:
    """Return the attention (N, H, D) of packed tokens; arguments as of `rl.learner.attention.attend`.

    `attention` computes causal attention of the last queries of each sequence; None for torch's FlashAttention.
    """
    attention = attention or flash_attention()
    how: dict[str, Any] = {"scale": scale, "window_size": (-1 if window is None else window - 1, 0)}
    n, starts = spans.prefix_tokens, spans.prefix_starts
    width = spans.longest_prefix
    prefixes: Tensor = attention(q[:n], k[:n], v[:n], starts, starts, width, width, **how)
    keys, values = (_KeysOfRows.apply(x, spans) for x in (k, v))
    rows: Tensor = attention(
        q[n:], keys, values, spans.row_starts, spans.key_starts, spans.longest_row, spans.longest_keys, **how
    )
    return torch.cat([prefixes, rows])


class _KeysOfRows(torch.autograd.Function):
    """x (N, Hk, D) of packed tokens, for every row those that it attends to: (K, Hk, D).

    The gradient of a prefix is the sum over its rows in one order, in float32; `index_select` would add it up number by
    number, in any order and in half precision.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, spans: Spans) -> Tensor:
        ctx.spans = spans
        return x.index_select(0, spans.keys)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        spans: Spans = ctx.spans
        flat = gradient.flatten(1)
        of_prefixes = F.embedding_bag(spans.shared_places, flat, spans.shared_starts, mode="sum")
        together = torch.cat([of_prefixes, flat.index_select(0, spans.own_places)])
        return together.view(-1, *gradient.shape[1:]), None


@cache
def flash_attention() -> VarlenAttention:
    """Return torch's attention for sequences of different lengths, which takes fewer key-value heads."""
    from torch.nn.attention.varlen import varlen_attn

    if "enable_gqa" in inspect.signature(varlen_attn).parameters:
        return partial(varlen_attn, enable_gqa=True)
    return varlen_attn


def _starts(length: np.ndarray) -> np.ndarray:
    """Where sequences of these lengths begin, and the total."""
    return np.concatenate([[0], np.cumsum(length)])
