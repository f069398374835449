"""The kernels for the softmax of many logits give what torch's operations give in double precision."""

import pytest
import torch

from tests.support.gpu import GPU, needs_gpu

pytestmark = needs_gpu
TOKENS = 7
DTYPES = {torch.float32: 1e-5, torch.bfloat16: 1e-2}  # and how much of a gradient rounding takes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_entropy_grad", [False, True])
@pytest.mark.parametrize("has_temperature", [False, True])
@pytest.mark.parametrize("words", [3, 4096, 10_000])
def test_values_and_gradients(words, has_temperature, has_entropy_grad, dtype):
    from rl.policy.gpu import softmax

    generator = torch.Generator().manual_seed(words)
    logits = (5 * torch.randn(TOKENS, words, generator=generator) - 40).to(dtype)
    target = torch.randint(words, (TOKENS,), generator=generator)
    temperature = torch.rand(TOKENS, 1, generator=generator) + 0.5 if has_temperature else None
    g, h = torch.randn(2, TOKENS, generator=generator)

    exact = logits.double().requires_grad_()
    logprobs = (exact if temperature is None else exact / temperature.double()).log_softmax(-1)
    logp, entropy = logprobs.gather(1, target[:, None]).squeeze(1), -(logprobs.exp() * logprobs).sum(-1)
    (gradient,) = torch.autograd.grad((g * logp).sum() + has_entropy_grad * (h * entropy).sum(), exact)

    on_gpu = [None if x is None else x.to(GPU) for x in (target, temperature, g, h)]
    mine = softmax.statistics(logits.to(GPU), *on_gpu[:2])
    total = (exact if temperature is None else exact / temperature.double()).logsumexp(-1)
    for value, expected in zip(mine, (logp, total, entropy), strict=True):
        assert value.dtype == torch.float32
        torch.testing.assert_close(value.cpu().double(), expected.detach(), rtol=1e-5, atol=1e-5)
    written = logits.to(GPU)
    softmax.write_gradient(written, *on_gpu[:2], *mine[1:], on_gpu[2], on_gpu[3] if has_entropy_grad else None)
    assert written.dtype == dtype
    assert float((written.cpu().double() - gradient).norm()) <= DTYPES[dtype] * float(gradient.norm())
