"""Kernels for rotary positions and gates give what torch's operations give in double precision."""

import pytest
import torch
import torch.nn.functional as F

from tests.support.gpu import GPU, needs_gpu

pytestmark = needs_gpu
TOKENS = 5
DTYPES = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_same(mine, expected, inputs, exact, tolerance):
    """Values and gradients, for a gradient that is not contiguous."""
    slope = numbers(*expected.shape[::-1], seed=9).permute(*reversed(range(expected.dim()))).double()
    pairs = [
        (mine, expected),
        *zip(
            torch.autograd.grad(mine, inputs, slope.to(mine)),
            torch.autograd.grad(expected, exact, slope),
            strict=True,
        ),
    ]
    for one, two in pairs:
        assert one.shape == two.shape and one.dtype == inputs[0].dtype
        assert float((one.detach().cpu().double() - two).norm()) <= tolerance * float(two.norm())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "size"), [(1, 2), (3, 8), (14, 64), (2, 128)])
def test_heads_are_turned_and_their_gradients_back(heads, size, dtype):
    from rl.policy.gpu import elementwise

    wide = numbers(TOKENS, heads + 2, size).to(dtype)  # heads are a part of more
    cos, sin = numbers(TOKENS, 1, size, seed=1).to(dtype), numbers(TOKENS, 1, size, seed=2).to(dtype)
    exact = wide.double()[:, 1 : 1 + heads].requires_grad_()
    expected = exact * cos.double() + exact.roll(size // 2, -1) * sin.double()
    x = wide.to(GPU)[:, 1 : 1 + heads].requires_grad_()
    mine = elementwise.rotate(x, cos.to(GPU), sin.to(GPU))
    assert_same(mine, expected, [x], [exact], DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("size", [3, 1024, 2500])
def test_gates(size, is_fused, dtype):
    from rl.policy.gpu import elementwise

    both = (3 * numbers(TOKENS, 2 * size)).to(dtype)
    exact = [x.requires_grad_() for x in both.double().chunk(2, -1)]
    expected = F.silu(exact[0]) * exact[1]
    parts = both.to(GPU).chunk(2, -1)
    inputs = [(x if is_fused else x.contiguous()).detach().requires_grad_() for x in parts]
    assert_same(elementwise.gated_silu(*inputs), expected, inputs, exact, DTYPES[dtype])
