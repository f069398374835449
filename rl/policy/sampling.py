"""Keyed sampling: tokens from logits such that each depends on (seed, position) and its distribution alone.

A token never depends on the batch that it was computed in. Legend: N rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rl.policy.engine import LOGITS_NOT_FINITE
from rl.records import SamplingParams

Alternatives = tuple[tuple[int, float], ...]  # tokens with their log-probabilities

_UINT64 = 2**64 - 1
_MIX_1, _MIX_2, _STEP = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)


def keyed_uniforms(seeds: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return one number in [0, 1) per (seed, position) pair: (N,) and (N,) to (N,) float64.

    Applies the SplitMix64 finaliser (Steele et al. 2014) twice.
    """
    with np.errstate(over="ignore"):
        x = seeds.astype(np.uint64) * _STEP
        for _ in range(2):
            x = x + positions.astype(np.uint64) * _STEP + _STEP
            x = (x ^ (x >> np.uint64(30))) * _MIX_1
            x = (x ^ (x >> np.uint64(27))) * _MIX_2
            x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mask_top_p_top_k(logits: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Set logits (N, V) outside the top-k and outside the smallest set of mass `top_p` to -inf.

    `top_p` and `top_k` are (N,); 1.0 and 0 switch them off. The largest logit is always kept.
    """
    descending, order = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[-1], device=logits.device)
    mass = descending.softmax(-1)
    before = mass.cumsum(-1) - mass
    # rounding can take `before` to 1, so 1.0 needs a test of its own
    out = ((top_p < 1)[:, None] & (before >= top_p[:, None])) | ((top_k > 0)[:, None] & (rank >= top_k[:, None]))
    out[:, 0] = False
    return logits.masked_fill(torch.zeros_like(out).scatter(1, order, out), -torch.inf)


def sample_tokens(
    logits: Tensor, uniform: Tensor, temperature: Tensor, top_p: Tensor | None = None, top_k: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample one token per row by inverting the cumulative distribution at `uniform`.

    Args:
        logits: (N, V), of the model at temperature 1.
        uniform: (N,) float64 in [0, 1), such as `keyed_uniforms`.
        temperature: (N,). 0 takes the largest logit, whose log-probability under the sampled distribution is 0.
        top_p: (N,), 1.0 where off; None with `top_k` None if no row uses either.
        top_k: (N,), 0 where off.

    Returns:
        Tokens (N,), their log-probabilities (N,) under the distribution that was sampled, and their log-probabilities
        (N,) under the model at temperature 1.
    """
    model = logits.float().log_softmax(-1)
    greedy = temperature <= 0
    behaviour = model
    if not bool((temperature == 1).all()):
        behaviour = (logits.float() / torch.where(greedy, 1.0, temperature)[:, None]).log_softmax(-1)
    if top_p is not None and top_k is not None:
        # rows that use neither keep every bit, whichever rows they are computed with
        is_truncated = ((top_p < 1) | (top_k > 0))[:, None]
        behaviour = torch.where(is_truncated, mask_top_p_top_k(behaviour, top_p, top_k).log_softmax(-1), behaviour)
    cumulative = behaviour.double().exp_().cumsum_(-1)
    target = (uniform * cumulative[:, -1])[:, None]
    token = (cumulative <= target).sum(-1).clamp_(max=logits.shape[-1] - 1)
    if bool(greedy.any()):
        token = torch.where(greedy, logits.argmax(-1), token)
    column = token[:, None]
    logprob = behaviour.gather(1, column).squeeze(1)
    return token, torch.where(greedy, 0.0, logprob), model.gather(1, column).squeeze(1)


def sample_rows(
    logits: Tensor, params: Sequence[SamplingParams], positions: np.ndarray
) -> tuple[list[int], list[float], list[float]]:
    """Sample one token per row of `logits` (N, V), each with its own parameters.

    A row's random number depends only on its `params.seed` and its position (N,), the token's index in its sequence.
    Returns N token ids, their log-probabilities under the distribution that was sampled, and those under the model at
    temperature 1. Raises `FloatingPointError` if a log-probability is not finite.
    """
    seeds = np.fromiter((p.seed & _UINT64 for p in params), np.uint64, len(params))
    temperature = torch.tensor([p.temperature for p in params], device=logits.device)
    truncates = any(p.top_p < 1 or p.top_k > 0 for p in params)
    top_p = torch.tensor([p.top_p for p in params], device=logits.device) if truncates else None
    top_k = torch.tensor([p.top_k for p in params], device=logits.device) if truncates else None
    uniform = torch.as_tensor(keyed_uniforms(seeds, positions), device=logits.device)
    sampled, own, of_model = sample_tokens(logits, uniform, temperature, top_p, top_k)
    tokens, logprobs, model_logprobs = sampled.tolist(), own.tolist(), of_model.tolist()
    if not math.isfinite(sum(logprobs) + sum(model_logprobs)):
        raise FloatingPointError(LOGITS_NOT_FINITE)
    return tokens, logprobs, model_logprobs


def likeliest_rows(logits: Tensor, params: Sequence[SamplingParams]) -> list[Alternatives]:
    """Return the likeliest tokens of each row of `logits` (N, V) that asks for them; `()` for the others."""
    if not any(p.alternatives for p in params):
        return [()] * len(params)
    return [likeliest(row, p) for row, p in zip(logits, params, strict=True)]


def likeliest(logits: Tensor, params: SamplingParams) -> Alternatives:
    """Return the `params.alternatives` likeliest tokens of logits (V,), with their log-probabilities, best first.

    They are under the distribution that is sampled at the temperature of `params`; greedy sampling has temperature 1
    here. Equally likely tokens come in the order of their ids.
    """
    if not params.alternatives:
        return ()
    logprobs = (logits.float() / (params.temperature if params.temperature > 0 else 1.0)).log_softmax(-1)
    values, ids = logprobs.sort(descending=True, stable=True)
    count = params.alternatives
    return tuple(zip(ids[:count].tolist(), values[:count].tolist(), strict=True))
