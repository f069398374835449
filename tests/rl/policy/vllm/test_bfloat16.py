"""vLLM with bfloat16 weights, with adapters of several families, and with both."""

import gc
from copy import deepcopy

import numpy as np
import pytest
import torch

from rl.policy import lora
from rl.policy.hf import HFPolicy
from tests.support.adapters import assert_matches_trainer, model_with_adapters, perturb_adapters
from tests.support.models import teacher_forced_logprobs
from tests.support.runs import flags, metrics, rollouts, train_run, weights
from tests.support.sampling import make_prompt, params, sample_all
from tests.support.vllm import assert_replies_match, needs_vllm, open_vllm, vllm_model

pytestmark = needs_vllm
REQUESTS = [(make_prompt(n), params(n, 12, stop=())) for n in range(6)]


def to_bfloat16(net):
    """Cast `net` to bfloat16 in place and return it."""
    for weight in net.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return net


def with_weights(net, weights):
    """Load `weights` into `net`, in float32, and return it."""
    net.load_state_dict({name: value.float() for name, value in dict(weights).items()})
    return net


def test_weights_in_bfloat16_are_taken_over_exactly():
    """vLLM on a CPU computes in float32, so its results are those of the same weights there."""
    net = to_bfloat16(vllm_model("qwen2"))
    exact = with_weights(vllm_model("qwen2"), net.state_dict())
    with open_vllm(net, slots=8) as policy:
        assert 1e-4 < policy.logprob_gap < 0.5
        assert policy.engine.config.lora_rank == 0
        replies = sample_all(policy, *REQUESTS)
    assert_replies_match(replies, sample_all(HFPolicy(exact), *REQUESTS))


def test_small_adapters_in_bfloat16_are_felt_as_merged_ones_would_not_be():
    """Measured by the change of log-probabilities, which vLLM on a CPU computes in float32."""
    pytest.importorskip("peft")
    net = model_with_adapters()
    perturb_adapters(net, 1, 2e-4)
    exact, plain = (
        with_weights(model_with_adapters(), to_bfloat16(net).state_dict()),
        with_weights(vllm_model(), lora.base_weights(net)),
    )
    merged_model = with_weights(vllm_model(), lora.merged_weights(net))
    with open_vllm(net, slots=8) as policy:
        replies = sample_all(policy, *REQUESTS)

    def read(model):
        return np.concatenate(
            [
                teacher_forced_logprobs(model, prompt, reply.ids)
                for (prompt, _), reply in zip(REQUESTS, replies, strict=True)
            ]
        )

    expected = read(exact) - read(plain)
    measured = np.concatenate([reply.model_logprobs for reply in replies]) - read(plain)
    assert np.abs(expected).max() > 1e-3
    assert np.linalg.norm(measured - expected) < 0.05 * np.linalg.norm(expected)
    assert np.linalg.norm(read(merged_model) - read(plain) - expected) > 0.5 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("qwen3", {"tie_word_embeddings": True}), ("gemma3_text", {"query_pre_attn_scalar": 32})],
)
def test_adapters_of_other_families_are_served_as_well(kind, more):
    pytest.importorskip("peft")
    net = model_with_adapters(kind, rank=9, **more)
    with open_vllm(net, slots=8) as policy:
        before = assert_matches_trainer(policy)
        perturb_adapters(net, 1, 1.0 if kind == "gemma3_text" else 0.05)  # Gemma's embeddings are loud
        policy.sync_weights()
        assert policy.logprob_gap < 1e-4
        after = assert_matches_trainer(policy)
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
    net = model_with_adapters(kind, rank)
    with pytest.raises(ValueError) as error, open_vllm(to_bfloat16(deepcopy(net))):
        pass
    assert str(error.value) == f"{why}, and merging them into bfloat16 loses small ones: use --engine hf"
    perturb_adapters(net, 1, 0.01)
    with open_vllm(net, slots=8) as policy:
        assert_matches_trainer(policy)
    assert [record.getMessage() for record in caplog.records] == [f"{why}; merging them into the weights instead"]


@pytest.mark.parametrize("engine", ["vllm", "vllm:process"])
def test_training_adapters_goes_as_it_does_with_the_hf_engine(engine, tmp_path, caplog):
    """With a reference, which is the model without adapters, and a cold start of the base weights."""
    pytest.importorskip("peft")
    gc.collect()
    gc.freeze()  # see `started`
    settings = {"lora": 3, "updates": 3, "turn_tokens": 12, "penalty": "kl_k2:coef=0.01", "cold_start": 4}
    words = flags("Talk", cold_start_until=0.1, **settings)
    mine, other = train_run(*words, "--engine", engine, out=tmp_path / "run"), train_run(*words, out=tmp_path / "hf")
    for one, two in zip(metrics(mine), metrics(other), strict=True):
        assert one["tokens/trained"] > 0 and one["episodes/errored"] == 0
        assert one["logp_gap/max"] < 1e-4
        assert one["reward/mean"] == pytest.approx(two["reward/mean"], abs=0.05)
    replies, expected = (
        [[turn["ids"] for turn in line["turns"]] for number in (1, 2, 3) for line in rollouts(folder, number)]
        for folder in (mine, other)
    )
    assert len(replies) == len(expected) == 24
    assert sum(map(list.__eq__, replies, expected)) >= 19
    for name, weight in weights(mine).items():
        torch.testing.assert_close(weight, weights(other)[name], atol=0.02, rtol=0)
    assert not caplog.records


def test_training_adapters_in_bfloat16_is_not_refused(tmp_path):
    pytest.importorskip("peft")
    gc.collect()
    gc.freeze()
    words = flags("Low", lora=3, updates=2, dtype="bfloat16", engine="vllm", eval_episodes=0)
    for line in metrics(train_run(*words, out=tmp_path / "run")):
        assert line["episodes/errored"] == 0 and line["logp_gap/max"] < 0.5
