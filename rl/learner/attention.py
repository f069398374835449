"""Attention of packed tokens (`rl.learner.packing.Packing`), also as an attention function of transformers.

Registered by name it replaces attention inside a model's own forward, so that mixtures of experts, sliding windows,
soft caps and sinks are computed by the library's code for the family (see "Attention Interface" in the documentation
of transformers; a mask is built for registered mask functions only, so none is built here).

Legend: N packed tokens, B sequences, T tokens of the longest, H heads, Hk key-value heads, D size of a query or key
head, Dv of a value head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from rl.policy.gpu import varlen

if TYPE_CHECKING:
    from rl.learner.packing import Packing

NAME = "turnwise_packed"


def attend(
    packing: Packing,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Return the attention (N, H, Dv) of packed tokens: a prefix to itself, a row to its prefix and itself, causally.

    Args:
        packing: Which token belongs to which sequence.
        q: Queries (N, H, D).
        k: Keys (N, Hk, D).
        v: Values (N, Hk, Dv).
        scale: Factor of the scores; None for D^-0.5.
        window: Most tokens, itself included, that a token attends to, by position; None for all before it.
        softcap: c, where a score s becomes c tanh(s / c) (Gemma 2, arXiv:2408.00118).
        sinks: Scores (H,) of a key without a value (gpt-oss, after arXiv:2309.17453).

    """
    if window is not None and window >= packing.max_length:
        window = None
    if softcap is None and sinks is None and varlen.is_served(q, v):
        return varlen.attend_spans(packing.spans, q, k, v, scale=scale, window=window)
    if q.is_cuda and q.shape[1] != k.shape[1]:  # no fused kernel there takes both a mask and fewer key-value heads
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    softmax: Callable[..., Tensor]
    if softcap is None and sinks is None:
        softmax = partial(F.scaled_dot_product_attention, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    else:
        softmax = partial(_capped_attention, scale=scale, softcap=softcap, sinks=sinks)
    if packing.unshared is not None:
        pad, unpad = packing.unshared
        mask = packing.causal_mask(packing.max_length, window, q.dtype)
        whole = (_pad(x, pad, packing.max_length) for x in (q, k, v))
        return _unpad(softmax(*whole, attn_mask=mask, is_causal=mask is None), unpad)
    n, (prefix_width, row_width) = packing.prefix_tokens, packing.widths
    qp, kp, vp = (_pad(x[:n], packing.prefix_pad, prefix_width) for x in (q, k, v))
    qr, kr, vr = (_pad(x[n:], packing.row_pad, row_width) for x in (q, k, v))
    keys, values = torch.cat([kp[packing.prefix_of], kr], 2), torch.cat([vp[packing.prefix_of], vr], 2)
    prefix_mask = packing.causal_mask(prefix_width, window, q.dtype)
    yp = softmax(qp, kp, vp, attn_mask=prefix_mask, is_causal=prefix_mask is None)
    yr = softmax(qr, keys, values, attn_mask=packing.row_mask(window, q.dtype))
    return torch.cat([_unpad(yp, packing.prefix_unpad), _unpad(yr, packing.row_unpad)])


def _capped_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    attn_mask: Tensor | None,
    is_causal: bool = False,
    scale: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """`scaled_dot_product_attention` (B, H, T, Dv) with soft caps and sinks, which it does not have."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if is_causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:], dtype=torch.bool).triu_(1), -torch.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(q.dtype)
    return weights[..., : k.shape[-2]] @ v


def can_replace_attention(model: Any) -> bool:
    """Whether the blocks of `model`, one of transformers, look their attention up by name."""
    return bool(getattr(model, "_can_set_attn_implementation", lambda: False)())


@contextmanager
def packed_attention(model: Any) -> Iterator[None]:
    """Context in which the own forward of `model` takes packed tokens.

    Inside, call it with `input_ids` and `position_ids` (1, N), `packing=` and without a mask. Raises `ValueError` for a
    family whose attention cannot be replaced.
    """
    if not can_replace_attention(model):
        raise ValueError(f"the attention of model type {model.config.model_type!r} cannot be replaced")
    AttentionInterface.register(NAME, _interface)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)  # it is a setting of the model, which others read too


def _interface(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    packing: Packing,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """`attend` as transformers calls it: (1, heads, N, size) to (1, N, H, Dv), and no weights."""
    if attention_mask is not None or len(query) != 1:
        raise ValueError("packed tokens are one sequence without a mask")
    packing.windows.add(sliding_window)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    y = attend(packing, q, k, v, scale=scaling, window=sliding_window, softcap=softcap, sinks=s_aux)
    return y[None], None


def _pad(x: Tensor, pad: Tensor | None, width: int) -> Tensor:
    """(N, H, D) -> (B, H, width, D)."""
    x = x if pad is None else x.index_select(0, pad)
    return x.view(-1, width, *x.shape[1:]).transpose(1, 2)


def _unpad(y: Tensor, unpad: Tensor | None) -> Tensor:
    """(B, H, width, D) -> (N, H, D)."""
    y = y.transpose(1, 2).flatten(0, 1)
    return y if unpad is None else y.index_select(0, unpad)
