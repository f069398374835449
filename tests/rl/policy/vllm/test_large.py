"""What makes a model fit, in vLLM: whole runs of adapters, bfloat16, and both of them."""

import gc
from copy import deepcopy

import numpy as np
import pytest
import torch

from rl.policy import lora
from rl.policy.hf import HFPolicy
from tests.support.adapters import adapted, assert_the_trainers, updated
from tests.support.models import teacher_forced
from tests.support.runs import flags, metrics, rollouts, trained, weights
from tests.support.sampling import params, prompt_of, sampled
from tests.support.vllm import assert_alike, needs_vllm, started, tall

pytestmark = needs_vllm
ASKED = [(prompt_of(n), params(n, 12, stop=())) for n in range(6)]


def halved(net):
    """The same in bfloat16."""
    for weight in net.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return net


def whole(net, named):
    """`net` with weights as they are named, in float32."""
    net.load_state_dict({name: value.float() for name, value in dict(named).items()})
    return net


def test_weights_in_bfloat16_are_taken_over_exactly():
    """A CPU's vLLM computes in float32, so it says what the same weights say there."""
    net = halved(tall("qwen2"))
    exact = whole(tall("qwen2"), net.state_dict())
    with started(net, slots=8) as policy:
        assert 1e-4 < policy.gap < 0.5
        assert policy.engine.plan.rank == 0
        found = sampled(policy, *ASKED)
    assert_alike(found, sampled(HFPolicy(exact), *ASKED))


def test_small_adapters_in_bfloat16_are_felt_as_merged_ones_would_not_be():
    """By how much they change log-probabilities, which a CPU's vLLM computes in float32."""
    pytest.importorskip("peft")
    net = adapted()
    updated(net, 1, 2e-4)
    exact, plain = whole(adapted(), halved(net).state_dict()), whole(tall(), lora.plain(net))
    merged = whole(tall(), lora.merged(net))
    with started(net, slots=8) as policy:
        replies = sampled(policy, *ASKED)

    def read(model):
        return np.concatenate(
            [teacher_forced(model, prompt, reply.ids) for (prompt, _), reply in zip(ASKED, replies, strict=True)]
        )

    wanted = read(exact) - read(plain)
    felt = np.concatenate([reply.model_logprobs for reply in replies]) - read(plain)
    assert np.abs(wanted).max() > 1e-3
    assert np.linalg.norm(felt - wanted) < 0.05 * np.linalg.norm(wanted)
    assert np.linalg.norm(read(merged) - read(plain) - wanted) > 0.5 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("qwen3", {"tie_word_embeddings": True}), ("gemma3_text", {"query_pre_attn_scalar": 32})],
)
def test_adapters_of_other_families_are_served_as_well(kind, more):
    pytest.importorskip("peft")
    net = adapted(kind, rank=9, **more)
    with started(net, slots=8) as policy:
        before = assert_the_trainers(policy)
        updated(net, 1, 1.0 if kind == "gemma3_text" else 0.05)  # Gemma's embeddings are loud
        policy.refresh()
        assert policy.gap < 1e-4
        after = assert_the_trainers(policy)
    assert (
        max(abs(one.model_logprobs[0] - two.model_logprobs[0]) for one, two in zip(before, after, strict=True)) > 1e-3
    )


@pytest.mark.parametrize(
    ("kind", "rank", "why"),
    [
        ("gpt2", 3, "vLLM serves no adapters on c_attn, c_fc, c_proj of GPT2LMHeadModel"),
        ("llama", 513, "vLLM serves adapters of rank 512 at most, and these have 513"),
    ],
)
def test_adapters_that_vllm_does_not_serve_are_merged_in_float32_and_refused_in_bfloat16(kind, rank, why, caplog):
    pytest.importorskip("peft")
    net = adapted(kind, rank)
    with pytest.raises(ValueError) as error, started(halved(deepcopy(net))):
        pass
    assert str(error.value) == f"{why}, and merging them into bfloat16 loses small ones: use --engine hf"
    updated(net, 1, 0.01)
    with started(net, slots=8) as policy:
        assert_the_trainers(policy)
    assert [record.getMessage() for record in caplog.records] == [f"{why}; merging them into the weights instead"]


@pytest.mark.parametrize("engine", ["vllm", "vllm:process"])
def test_training_adapters_goes_as_it_does_with_the_hf_engine(engine, tmp_path, caplog):
    """With a reference, which is the model without them, and a cold start of the weights below them."""
    pytest.importorskip("peft")
    gc.collect()
    gc.freeze()  # see `started`
    given = {"lora": 3, "updates": 3, "turn_tokens": 12, "penalty": "kl_k2:coef=0.01", "cold_start": 4}
    words = flags("Talk", cold_start_until=0.1, **given)
    mine, other = trained(*words, "--engine", engine, out=tmp_path / "run"), trained(*words, out=tmp_path / "hf")
    for one, two in zip(metrics(mine), metrics(other), strict=True):
        assert one["tokens/trained"] > 0 and one["episodes/errored"] == 0
        assert one["logp_gap/max"] < 1e-4
        assert one["reward/mean"] == pytest.approx(two["reward/mean"], abs=0.05)
    said, wanted = (
        [[turn["ids"] for turn in line["turns"]] for number in (1, 2, 3) for line in rollouts(folder, number)]
        for folder in (mine, other)
    )
    assert len(said) == len(wanted) == 24
    assert sum(map(list.__eq__, said, wanted)) >= 19
    for name, weight in weights(mine).items():
        torch.testing.assert_close(weight, weights(other)[name], atol=0.02, rtol=0)
    assert not caplog.records


def test_training_adapters_in_bfloat16_is_not_refused(tmp_path):
    pytest.importorskip("peft")
    gc.collect()
    gc.freeze()
    words = flags("Low", lora=3, updates=2, dtype="bfloat16", engine="vllm", eval_episodes=0)
    for line in metrics(trained(*words, out=tmp_path / "run")):
        assert line["episodes/errored"] == 0 and line["logp_gap/max"] < 0.5
