"""Rotary positions and gated activations on a GPU, in Triton: one kernel each way, which saves its inputs alone.

Composed of torch's operations they read and write a block's largest tensors three times as often. Numbers are float32
within a kernel. Importing this module imports Triton, which torch brings where it computes on CUDA.

Legend: N tokens, H heads, D head size, F inner size of the MLP.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from rl.policy.gpu.kernels import on_device_of

BLOCK = 1024


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x * cos + roll(x) * sin for x (N, H, D), rolled by half a head (RoPE, arXiv:2104.09864).

    `cos` and `sin` are (N, 1, D); the sines of the first half are negated already.
    """
    heads: Tensor = _Rotation.apply(x, cos, sin)
    return heads


def gated_silu(gate: Tensor, up: Tensor) -> Tensor:
    """Return silu(gate) * up (SwiGLU, arXiv:2002.05202) for gate and up (N, F)."""
    product: Tensor = _GatedSilu.apply(gate, up)
    return product


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin, is_backward=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _rotated(gradient, *ctx.saved_tensors, is_backward=True), None, None


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, *, is_backward: bool) -> Tensor:
    if x.stride(2) != 1:
        x = x.contiguous()
    n, heads, size = x.shape
    out = x.new_empty(x.shape)
    pairs = heads * size // 2
    with on_device_of(x):
        _rotation[(n, triton.cdiv(pairs, BLOCK))](
            x,
            cos,
            sin,
            out,
            x.stride(0),
            x.stride(1),
            pairs,
            cos.stride(0),
            sin.stride(0),
            HALF=size // 2,
            IS_BACKWARD=is_backward,
            BLOCK=BLOCK,
        )
    return out


@triton.jit
def _rotation(  # type: ignore[no-untyped-def]
    x,
    cos,
    sin,
    out,
    row_step,
    head_step,
    pairs,
    cos_step,
    sin_step,
    HALF: tl.constexpr,
    IS_BACKWARD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    pair = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    head, place = pair // HALF, pair % HALF
    source = x + row * row_step + head * head_step + place
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    first_cos = tl.load(cos + row * cos_step + place, mask=inside, other=0.0).to(tl.float32)
    second_cos = tl.load(cos + row * cos_step + place + HALF, mask=inside, other=0.0).to(tl.float32)
    first_sin = tl.load(sin + row * sin_step + place, mask=inside, other=0.0).to(tl.float32)
    second_sin = tl.load(sin + row * sin_step + place + HALF, mask=inside, other=0.0).to(tl.float32)
    to_first = second_sin if IS_BACKWARD else first_sin
    to_second = first_sin if IS_BACKWARD else second_sin
    target = out + row * pairs * 2 + head * 2 * HALF + place
    kind = out.dtype.element_ty
    tl.store(target, (first * first_cos + second * to_first).to(kind), mask=inside)
    tl.store(target + HALF, (second * second_cos + first * to_second).to(kind), mask=inside)


class _GatedSilu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        gate, up = (x if x.stride(1) == 1 else x.contiguous() for x in (gate, up))
        ctx.save_for_backward(gate, up)
        n, size = gate.shape
        out = gate.new_empty(n, size)
        with on_device_of(gate):
            _gated_silu[(n, triton.cdiv(size, BLOCK))](gate, up, out, gate.stride(0), up.stride(0), size, BLOCK=BLOCK)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        gradient = gradient if gradient.stride(1) == 1 else gradient.contiguous()
        n, size = gate.shape
        of_gate, of_up = gate.new_empty(n, size), gate.new_empty(n, size)
        steps = gradient.stride(0), gate.stride(0), up.stride(0)
        with on_device_of(gate):
            _gated_silu_gradient[(n, triton.cdiv(size, BLOCK))](
                gradient, gate, up, of_gate, of_up, *steps, size, BLOCK=BLOCK
            )
        return of_gate, of_up


@triton.jit
def _gated_silu(gate, up, out, gate_step, up_step, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    x = tl.load(gate + row * gate_step + column, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(up + row * up_step + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * size + column, (x * tl.sigmoid(x) * y).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gated_silu_gradient(  # type: ignore[no-untyped-def]
    gradient, gate, up, of_gate, of_up, gradient_step, gate_step, up_step, size, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    g = tl.load(gradient + row * gradient_step + column, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(gate + row * gate_step + column, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(up + row * up_step + column, mask=inside, other=0.0).to(tl.float32)
    share = tl.sigmoid(x)
    kind = of_gate.dtype.element_ty
    tl.store(of_up + row * size + column, (g * x * share).to(kind), mask=inside)
    slope = share * (1.0 + x * (1.0 - share))
    tl.store(of_gate + row * size + column, (g * y * slope).to(kind), mask=inside)
