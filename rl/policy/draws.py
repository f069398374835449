"""Draw tokens from logits so that a draw depends on (seed, position) and the distribution only, never on the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rl.records import SamplingParams

_UINT64 = 2**64 - 1
_MIX_1, _MIX_2, _STEP = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)


def uniforms(seeds: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """One number in [0, 1) per (seed, position) pair, float64: the SplitMix64 finaliser (Steele et al. 2014) twice."""
    with np.errstate(over="ignore"):
        x = seeds.astype(np.uint64) * _STEP
        for _ in range(2):
            x = x + positions.astype(np.uint64) * _STEP + _STEP
            x = (x ^ (x >> np.uint64(30))) * _MIX_1
            x = (x ^ (x >> np.uint64(27))) * _MIX_2
            x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def truncate(logits: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Set logits (N, V) outside the top-k and the smallest set of mass `top_p` to -inf; 0 and 1.0 switch them off."""
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[-1], device=logits.device)
    mass = ordered.softmax(-1)
    before = mass.cumsum(-1) - mass
    # rounding can take `before` to 1, so 1.0 needs a test of its own
    out = ((top_p < 1)[:, None] & (before >= top_p[:, None])) | ((top_k > 0)[:, None] & (rank >= top_k[:, None]))
    out[:, 0] = False
    return logits.masked_fill(torch.zeros_like(out).scatter(1, order, out), -torch.inf)


def draw(
    logits: Tensor, uniform: Tensor, temperature: Tensor, top_p: Tensor | None = None, top_k: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (N,), their log-probabilities under the sampled distribution and under the model at temperature 1.

    By inverting the cumulative distribution at `uniform` (N,). Temperature 0 takes the largest logit, with
    log-probability 0 under the (degenerate) sampled distribution.
    """
    model = logits.float().log_softmax(-1)
    greedy = temperature <= 0
    sampled = model
    if not bool((temperature == 1).all()):
        sampled = (logits.float() / torch.where(greedy, 1.0, temperature)[:, None]).log_softmax(-1)
    if top_p is not None and top_k is not None:
        narrowed = ((top_p < 1) | (top_k > 0))[:, None]  # the others keep every bit, whoever they are computed with
        sampled = torch.where(narrowed, truncate(sampled, top_p, top_k).log_softmax(-1), sampled)
    cumulative = sampled.double().exp_().cumsum_(-1)
    target = (uniform * cumulative[:, -1])[:, None]
    token = (cumulative <= target).sum(-1).clamp_(max=logits.shape[-1] - 1)
    if bool(greedy.any()):
        token = torch.where(greedy, logits.argmax(-1), token)
    pick = token[:, None]
    behaviour = sampled.gather(1, pick).squeeze(1)
    return token, torch.where(greedy, 0.0, behaviour), model.gather(1, pick).squeeze(1)


def draw_each(
    logits: Tensor, params: Sequence[SamplingParams], positions: np.ndarray
) -> tuple[list[int], list[float], list[float]]:
    """`draw` one token per row as its request asks, at absolute `positions` (N,).

    Raises `FloatingPointError` where logits are not finite.
    """
    seeds = np.fromiter((p.seed & _UINT64 for p in params), np.uint64, len(params))
    temperature = torch.tensor([p.temperature for p in params], device=logits.device)
    narrowed = any(p.top_p < 1 or p.top_k > 0 for p in params)
    top_p = torch.tensor([p.top_p for p in params], device=logits.device) if narrowed else None
    top_k = torch.tensor([p.top_k for p in params], device=logits.device) if narrowed else None
    uniform = torch.as_tensor(uniforms(seeds, positions), device=logits.device)
    tokens, behaviour, model = (part.tolist() for part in draw(logits, uniform, temperature, top_p, top_k))
    if not math.isfinite(sum(behaviour) + sum(model)):
        raise FloatingPointError("the model's logits are not finite")
    return tokens, behaviour, model
