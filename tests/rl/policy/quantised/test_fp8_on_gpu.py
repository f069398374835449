"""Rounded layers compute what a GPU's FP8 arithmetic gives for the same scales."""

import pytest
import torch
from torch import nn

from rl.policy.quantised.linear import BLOCK, LARGEST, quantise
from tests.support.gpu import GPU, in_whole_float32, needs_gpu  # noqa: F401

pytestmark = [*needs_gpu, pytest.mark.usefixtures("in_whole_float32")]
TOKENS, INPUTS, OUTPUTS = 256, 512, 384


def in_fp8(x, rows):
    """The numbers (N, E) in E4M3, and the scale (N / rows, E / 128) of each block."""
    blocks = x.view(len(x) // rows, rows, -1, BLOCK)
    scale = blocks.abs().amax((1, 3)) / LARGEST
    return (blocks / scale[:, None, :, None]).view_as(x).to(torch.float8_e4m3fn), scale


def product(x, weight):
    """`x @ weight.T` on FP8 tensor cores, a sum over blocks of 128 inputs with their scales in float32."""
    (a, of_a), (b, of_b), one = in_fp8(x, 1), in_fp8(weight, BLOCK), torch.ones((), device=GPU)
    total = torch.zeros(len(x), len(weight), device=GPU)
    for block in range(x.shape[1] // BLOCK):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        left, right = a[:, part].contiguous(), b[:, part].contiguous().t()
        sums = torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=False)
        total += sums * of_a[:, block, None] * of_b[:, block].repeat_interleave(BLOCK)
    return total


@pytest.mark.parametrize("seed", range(3))
def test_the_emulation_is_the_arithmetic_of_the_hardware(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(TOKENS, INPUTS, generator=generator).to(GPU)
    layer = nn.Linear(INPUTS, OUTPUTS, bias=False).to(GPU)
    with torch.no_grad():
        plain, rounded = layer(x), quantise(nn.ModuleList([layer]))[0](x)
        expected = product(x, layer.weight)
        assert float((rounded - expected).norm() / expected.norm()) < 1e-3
        assert float((plain - expected).norm() / expected.norm()) > 1e-2
