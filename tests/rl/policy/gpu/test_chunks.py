"""Log-probabilities of many tokens by the kernels, chunk by chunk, with the gradient of a plain softmax."""

import pytest
import torch

from rl.learner import logprobs
from rl.policy.gpu import kernels
from tests.support.gpu import GPU, in_whole_float32, needs_gpu  # noqa: F401

pytestmark = [*needs_gpu, pytest.mark.usefixtures("in_whole_float32")]
TOKENS, WIDTH, WORDS = 23, 6, 11


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def plain(states, head, target, temperature):
    z = states @ head.T if temperature is None else states @ head.T / temperature
    scores = z.log_softmax(-1)
    return scores.gather(1, target[:, None]).squeeze(1), -(scores.exp() * scores).sum(-1)


@pytest.mark.parametrize("temperature", [None, 0.7], ids=str)
@pytest.mark.parametrize("weights", [(1.0, 0.0), (1.0, 0.3), (0.0, 1.0)], ids=["log-probability", "both", "entropy"])
def test_of_sums_whose_gradient_is_one_number(monkeypatch, weights, temperature):
    monkeypatch.setattr(logprobs, "WHOLE_LOGITS", 0)
    monkeypatch.setattr(logprobs, "GPU_CHUNK_LOGITS", 4 * WORDS)
    target = (torch.arange(TOKENS) * 7 % WORDS).to(GPU)
    divisor = None if temperature is None else torch.full((1, 1), temperature, device=GPU).expand(TOKENS, 1)
    found = []
    for score in (plain, lambda *them: logprobs.of_states(*them, entropy_grad=True)):
        states, head = (numbers(size, WIDTH).to(GPU).requires_grad_() for size in (TOKENS, WORDS))
        assert kernels.softmax_kernels(states) is not None
        logp, entropy = score(states, head, target, divisor)
        (weights[0] * logp.sum() + weights[1] * entropy.sum()).backward()
        found.append((logp, entropy, states.grad, head.grad))
    for mine, other in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_impossible_tokens_have_no_part():
    from rl.policy.gpu import softmax

    logits = numbers(3, 10)
    logits[:, 4:9] = -torch.inf
    target = torch.tensor([0, 3, 9])
    logp, total, entropy = softmax.statistics(logits.to(GPU), target.to(GPU), None)
    scores = logits[:, [0, 1, 2, 3, 9]].double().log_softmax(-1)
    torch.testing.assert_close(logp.cpu().double(), scores[range(3), [0, 3, 4]], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(entropy.cpu().double(), -(scores.exp() * scores).sum(-1), rtol=1e-5, atol=1e-5)
    gradient = logits.to(GPU)
    softmax.write_gradient(
        gradient, target.to(GPU), None, total, entropy, torch.ones_like(total), torch.ones_like(total)
    )
    assert gradient.isfinite().all() and not gradient[:, 4:9].any()
