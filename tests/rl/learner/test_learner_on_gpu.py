"""An update on a GPU gives the gradient of one on the CPU, up to rounding."""

from copy import deepcopy

import pytest
import torch

from rl.learner import batch, logprobs
from rl.learner.learner import Learner
from rl.methods.parts import baseline, ratio, reduce, surrogate
from rl.methods.recipe import Recipe
from rl.policy import lora
from rl.policy.gpu import kernels
from tests.support.gpu import GPU, in_whole_float32, needs_gpu  # noqa: F401
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, model
from tests.support.play import random_groups

pytestmark = [*needs_gpu, pytest.mark.usefixtures("in_whole_float32")]
PLAIN = Recipe(baseline=baseline.none, ratio=ratio.on_policy, surrogate=surrogate.linear, reduce=reduce.token_mean)
FAMILIES = [*PACKED_FAMILIES, *OTHER_FAMILIES, "gemma2", "gpt_oss"]
SIZES = {"head_dim": 32}  # a head that FlashAttention takes


@pytest.fixture(params=[False, True], ids=["", "kernels"])
def with_kernels(request, monkeypatch):
    """Let batches as small as these be computed by the kernels for large ones."""
    if request.param:
        monkeypatch.setattr(kernels, "MIN_TOKENS", 1)
        monkeypatch.setattr(logprobs, "WHOLE_LOGITS", 0)


def gradient(kind, device, dtype=torch.float32, **options):
    net = model(kind, **SIZES).to(device, dtype)
    learner = Learner(net, lr=0.0, max_grad_norm=1e9, **options)
    learner.update(batch.build_rows(random_groups(), PLAIN), PLAIN)
    return torch.cat([m.grad.double().flatten().cpu() for m in learner.optimizer.masters if m.grad is not None])


def error(mine, other):
    return float((mine - other).norm() / other.norm())


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("kind", FAMILIES)
def test_in_float32(kind):
    assert error(gradient(kind, GPU), gradient(kind, "cpu")) < 1e-4


@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kind", FAMILIES)
def test_in_bfloat16_within_its_rounding(kind, recompute):
    expected = gradient(kind, "cpu")
    bound = 2 * error(gradient(kind, "cpu", torch.bfloat16), expected)  # attention by masks, on the CPU
    assert error(gradient(kind, GPU, torch.bfloat16, recompute=recompute), expected) < max(bound, 0.02)


def test_a_learner_goes_on_from_its_saved_state():
    rows = batch.build_rows(random_groups(), PLAIN)
    learners = [Learner(model(**SIZES).to(GPU, torch.bfloat16), lr=1e-4) for _ in range(2)]
    learners[0].update(rows, PLAIN)
    saved = deepcopy((learners[0].state_dict(), learners[0].model.state_dict()))
    learners[1].model.load_state_dict(saved[1])
    learners[1].load_state_dict(saved[0])
    for learner in learners:
        learner.update(rows, PLAIN)
    first = torch.cat([weight.float().flatten() for weight in saved[1].values()])
    steps = [
        torch.cat([weight.float().flatten() for weight in learner.model.state_dict().values()]) - first
        for learner in learners
    ]
    assert all(master.device.type == GPU and master.dtype == torch.float32 for master in learners[1].optimizer.masters)
    assert error(*steps) < 0.2  # sums of another order turn steps along gradients of nearly nothing


def test_adapters_alone_are_trained():
    net = model(**SIZES).to(GPU, torch.bfloat16)
    lora.attach(net, 4, alpha=8)
    net.to(GPU)
    before = {name: weight.clone() for name, weight in net.named_parameters()}
    Learner(net, lr=1e-2).update(batch.build_rows(random_groups(), PLAIN), PLAIN)
    changed = {name for name, weight in net.named_parameters() if not torch.equal(weight, before[name])}
    assert changed and all("lora" in name for name in changed)
