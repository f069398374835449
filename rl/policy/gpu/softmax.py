"""Kernels for the softmax of many logits on a GPU, in Triton: each reads a logit once and keeps nothing of its size.

Composed of torch's operations, log-probability, entropy and their gradient read and write the logits of a chunk in
float32 a dozen times. Importing this module imports Triton, which torch brings where it computes on CUDA.

Legend: M tokens, V vocabulary, z logits over temperature, l log-sum-exp of z, H entropy, p = exp(z - l).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rl.policy.gpu.kernels import on_device_of

BLOCK, WARPS = 4096, 8  # logits that a program holds at a time, and the warps that it runs on


def statistics(logits: Tensor, target: Tensor, temperature: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probability of the tokens `target` (M,), l and H, all (M,) in float32, for logits (M, V).

    `temperature` is (M, 1), or None where all are 1.
    """
    temperature = None if temperature is None else temperature.contiguous()
    logp, total, entropy = (torch.empty(len(logits), dtype=torch.float32, device=logits.device) for _ in range(3))
    has_temperature = temperature is not None
    with on_device_of(logits):
        _statistics[(len(logits),)](
            logits,
            target,
            temperature if has_temperature else logits,
            logp,
            total,
            entropy,
            logits.shape[1],
            HAS_TEMPERATURE=has_temperature,
            BLOCK=BLOCK,
            num_warps=WARPS,
        )
    return logp, total, entropy


def write_gradient(
    logits: Tensor,
    target: Tensor,
    temperature: Tensor | None,
    total: Tensor,
    entropy: Tensor,
    logp_grad: Tensor,
    entropy_grad: Tensor | None,
) -> None:
    """Replace logits (M, V) by their gradient, (g (1[target] - p) - h p (z - l + H)) / T.

    g and h are the gradients `logp_grad` and `entropy_grad` (M,) of log-probability and entropy; `total` is l and
    `entropy` is H, as `statistics` returned them.
    """
    logp_grad = logp_grad.contiguous()  # the gradient of a sum is one number with a step of 0
    temperature, entropy_grad = (None if x is None else x.contiguous() for x in (temperature, entropy_grad))
    has_temperature, has_entropy_grad = temperature is not None, entropy_grad is not None
    with on_device_of(logits):
        _write_gradient[(len(logits),)](
            logits,
            target,
            temperature if has_temperature else total,
            total,
            entropy,
            logp_grad,
            entropy_grad if has_entropy_grad else total,
            logits.shape[1],
            HAS_TEMPERATURE=has_temperature,
            HAS_ENTROPY_GRAD=has_entropy_grad,
            BLOCK=BLOCK,
            num_warps=WARPS,
        )


@triton.jit
def _statistics(
    logits, target, temperature, logp, total, entropy, size, HAS_TEMPERATURE: tl.constexpr, BLOCK: tl.constexpr
):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * size
    scale = 1.0 / tl.load(temperature + row) if HAS_TEMPERATURE else 1.0
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)  # of each lane, which sums on its own
    sums, products = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for first in range(0, size, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < size
        z = tl.load(start + column, mask=inside, other=0.0).to(tl.float32) * scale
        has_mass = inside & (z != float("-inf"))
        new = tl.where(has_mass, tl.maximum(largest, z), largest)
        fade = tl.where(largest == float("-inf"), 0.0, tl.exp(largest - new))
        weight = tl.where(has_mass, tl.exp(z - new), 0.0)
        sums = sums * fade + weight
        products = products * fade + tl.where(has_mass, weight * z, 0.0)
        largest = new
    top = tl.max(largest, 0)
    fade = tl.where(largest == float("-inf"), 0.0, tl.exp(largest - top))
    mass = tl.sum(sums * fade, 0)
    mean = tl.sum(products * fade, 0) / mass
    log_sum = top + tl.log(mass)
    logit = tl.load(start + tl.load(target + row)).to(tl.float32) * scale
    tl.store(logp + row, logit - log_sum)
    tl.store(total + row, log_sum)
    tl.store(entropy + row, log_sum - mean)


@triton.jit
def _write_gradient(
    logits,
    target,
    temperature,
    total,
    entropy,
    logp_grad,
    entropy_grad,
    size,
    HAS_TEMPERATURE: tl.constexpr,
    HAS_ENTROPY_GRAD: tl.constexpr,
    BLOCK: tl.constexpr,
):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * size
    scale = 1.0 / tl.load(temperature + row) if HAS_TEMPERATURE else 1.0
    token, log_sum, g = tl.load(target + row), tl.load(total + row), tl.load(logp_grad + row)
    for first in range(0, size, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < size
        z = tl.load(start + column, mask=inside, other=0.0).to(tl.float32) * scale - log_sum
        p = tl.exp(z)
        gradient = tl.where(column == token, g, 0.0) - g * p
        if HAS_ENTROPY_GRAD:
            gradient -= tl.load(entropy_grad + row) * tl.where(p > 0.0, (z + tl.load(entropy + row)) * p, 0.0)
        tl.store(start + column, (gradient * scale).to(logits.dtype.element_ty), mask=inside)
