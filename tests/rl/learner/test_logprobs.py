"""Log-probabilities in chunks are those of a plain softmax, with its gradient, in a fraction of its memory."""

from __future__ import annotations

import pytest
import torch

from rl.learner import logprobs
from rl.learner.learner import Learner
from rl.methods.recipes.grpo import recipe as grpo
from tests.rl.learner.test_packing import gradient
from tests.rl.learner.test_recompute import long_rows
from tests.support.memory import peak_bytes
from tests.support.models import model

TOKENS, WIDTH, WORDS = 23, 6, 11
INPUTS = torch.Generator().manual_seed(0)
STATES = torch.randn(TOKENS, WIDTH, generator=INPUTS, dtype=torch.float64)
HEAD = torch.randn(WORDS, WIDTH, generator=INPUTS, dtype=torch.float64)
TARGET = torch.randint(WORDS, (TOKENS,), generator=INPUTS)
TEMPERATURE = torch.rand(TOKENS, 1, generator=INPUTS, dtype=torch.float64) + 0.5


@pytest.fixture
def in_chunks(monkeypatch):
    monkeypatch.setattr(logprobs, "WHOLE_LOGITS", 0)
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", 4 * WORDS)  # chunks of four tokens, and one of three


def plain(states, head, temperature):
    z = states @ head.T if temperature is None else states @ head.T / temperature
    scores = z.log_softmax(-1)
    return scores.gather(1, TARGET[:, None]).squeeze(1), -(scores.exp() * scores).sum(-1)


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize("temperature", [None, TEMPERATURE], ids=["at 1", "at a temperature"])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (1.0, 0.3), (0.0, 1.0)], ids=["log-probability", "both", "entropy"])
def test_values_and_gradients_are_those_of_a_plain_softmax(temperature, weights):
    found = []
    for score in (plain, lambda *them: logprobs.of_states(*them[:2], TARGET, them[2], entropy_grad=True)):
        states, head = STATES.clone().requires_grad_(), HEAD.clone().requires_grad_()
        logp, entropy = score(states, head, temperature)
        slope = torch.linspace(-1, 1, TOKENS, dtype=torch.float64)
        (weights[0] * (logp * slope).sum() + weights[1] * (entropy * slope.flip(0)).sum()).backward()
        found.append((logp, entropy, states.grad, head.grad))
    for mine, right in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("in_chunks")
def test_without_its_gradient_the_entropy_is_a_number_alone():
    states = STATES.clone().requires_grad_()
    logp, entropy = logprobs.of_states(states, HEAD, TARGET, None)
    assert logp.requires_grad and not entropy.requires_grad
    logp.sum().backward()  # and the output matrix needs none
    assert torch.isfinite(states.grad).all()
    with torch.no_grad():
        assert not logprobs.of_states(STATES, HEAD, TARGET, None)[0].requires_grad


@pytest.mark.usefixtures("in_chunks")
def test_in_bfloat16_values_are_float32_and_the_output_matrix_adds_up_in_float32():
    states, head = STATES.bfloat16().requires_grad_(), HEAD.bfloat16().requires_grad_()
    logp, entropy = logprobs.of_states(states, head, TARGET, None)
    right = plain(states.detach().double(), head.detach().double(), None)
    assert logp.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logp.double(), right[0], rtol=0, atol=0.05)
    logp.sum().backward()
    assert states.grad.dtype == head.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_an_update_in_chunks_has_the_gradient_of_one_without(kind, monkeypatch):
    net, batch, found = model(kind, vocab_size=500), long_rows(), []
    for whole in (2**24, 0):
        monkeypatch.setattr(logprobs, "WHOLE_LOGITS", whole)
        monkeypatch.setattr(logprobs, "CHUNK_LOGITS", 500 * 16)
        net.zero_grad()
        metrics = Learner(net, lr=0.0, max_grad_norm=1e9).update(batch, grpo)
        found.append((gradient(net).clone(), metrics))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-4, atol=1e-6 * float(found[0][0].abs().max()))
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-4, abs=1e-6)


def test_the_highest_point_is_two_and_a_half_chunks_beside_the_gradient_of_the_output_matrix(monkeypatch):
    tokens, width, words, chunk = 512, 16, 20_000, 64
    monkeypatch.setattr(logprobs, "WHOLE_LOGITS", 0)
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", chunk * words)
    states, head = torch.randn(tokens, width, requires_grad=True), torch.randn(words, width, requires_grad=True)
    target = torch.randint(words, (tokens,))

    def update():
        logprobs.of_states(states, head, target, None)[0].sum().backward()

    update()
    of_head = 4 * head.numel() * 2  # its gradient, and what one chunk adds to it
    assert peak_bytes(update) - of_head <= 2.5 * chunk * words * 4
