"""Images through vLLM: replies are those of the hf engine, also after updates of the vision tower."""

import asyncio
from importlib.util import find_spec

import numpy as np
import pytest
import torch

pytest.importorskip("PIL", reason="needs Pillow: the extra vision")

from agents.images import PlacedImage
from rl.learner.learner import Learner
from rl.policy import lora
from rl.policy.hf import HFPolicy
from rl.policy.images.inputs import image_inputs
from rl.policy.images.trial import noise
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.policy.vllm.engine import _check_length
from rl.policy.vllm.requests import as_snapshot
from rl.policy.vllm.weight_sync import Probe
from rl.records import Completion, SamplingParams
from tests.rl.policy.test_image_runs import words
from tests.support.adapters import perturb_adapters
from tests.support.runs import metrics, train
from tests.support.sampling import params
from tests.support.vision import FAMILIES, PICTURES, play, renderer_of, shown, vision_model
from tests.support.vllm import assert_replies_match, needs_vllm, open_vllm

pytestmark = [
    *needs_vllm,
    pytest.mark.skipif(find_spec("torchvision") is None, reason="vLLM reads images with torchvision"),
]
CONTEXT = 256
NO_ENGINE = "no engine"  # in this process, which can hold one at a time
main_family = pytest.mark.parametrize("policy", ["qwen2_vl"], indirect=True)
no_family = pytest.mark.parametrize("policy", [NO_ENGINE], indirect=True)


def saved_model(family, folder):
    """A model as it is loaded from its files, with the processor that vLLM loads too."""
    save_pretrained(*vision_model(family), folder)
    return load_pretrained(str(folder))[0]


@pytest.fixture(scope="module", params=FAMILIES)
def policy(request, tmp_path_factory):
    if request.param == NO_ENGINE:
        yield None
        return
    net = saved_model(request.param, tmp_path_factory.mktemp("vision") / "model")
    with open_vllm(net, slots=8, context=CONTEXT) as policy:
        policy.family = request.param
        yield policy
        assert policy.engine.requests == {}


def replies(family, policy):
    """The replies of four episodes of three turns, with pictures in the first and in the last; and the episodes."""
    trajectories, _ = play(family, policy=policy)
    return [turn.completion for trajectory in trajectories for turn in trajectory.turns], trajectories


def hf(policy):
    return HFPolicy(policy.model, context=CONTEXT)


def prompt_of(model, pictures, text):
    """A prompt that shows pictures before a text, and where they are in it."""
    message = shown(pictures[0], text)
    message["content"] = [*(shown(picture, "")["content"][0] for picture in pictures), message["content"][1]]
    prompt, images, start = tuple(renderer_of("qwen2_vl").open([message])), [], 0
    for picture in pictures:
        run = image_inputs(model).expand(picture)
        start = next(i for i in range(start, len(prompt)) if prompt[i : i + len(run)] == run)
        images.append(PlacedImage(start, picture))
        start += len(run)
    return prompt, images


def ask(policy, *requests, resume_from=None):
    """Backend to `(prompt, images, parameters)`, sampled together."""

    async def together():
        return await asyncio.gather(
            *(policy.sample(p, how, images=images, resume_from=resume_from) for p, images, how in requests)
        )

    return asyncio.run(together())


def perturb_vision_tower(model, seed):
    noise_source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "vis" in name:
                weight += torch.randn(weight.shape, generator=noise_source) * weight.std().nan_to_num()


def test_episodes_with_pictures_are_those_of_the_hf_engine_and_the_learner_agrees(policy):
    mine, trajectories = replies(policy.family, policy)
    assert_replies_match(mine, replies(policy.family, hf(policy))[0])
    scores = Learner(policy.model, lr=1e-3).logprobs(trajectories)
    for trajectory, turns in zip(trajectories, scores, strict=True):
        for turn, logprobs in zip(trajectory.turns, turns, strict=True):
            np.testing.assert_allclose(turn.completion.logprobs, logprobs, atol=1e-4)


@main_family
def test_greedy_replies_are_those_of_the_hf_engine(policy):
    how = SamplingParams(max_tokens=12, temperature=0.0)
    requests = [(*prompt_of(policy.model, [picture], f"what is {n}?"), how) for n, picture in enumerate(PICTURES * 2)]
    mine, others = ask(policy, *requests), ask(hf(policy), *requests)
    assert [reply.ids for reply in mine] == [reply.ids for reply in others]


def assert_takes_over_the_vision_tower(policy):
    before, _ = replies("qwen2_vl", policy)
    perturb_vision_tower(policy.model, 1)
    policy.sync_weights()
    assert policy.logprob_gap < 1e-4
    after, _ = replies("qwen2_vl", policy)
    assert_replies_match(after, replies("qwen2_vl", hf(policy))[0])
    assert max(abs(a.logprobs[0] - b.logprobs[0]) for a, b in zip(before, after, strict=True)) > 1e-2


@main_family
def test_pictures_are_seen_by_the_new_vision_tower_after_an_update(policy):
    assert_takes_over_the_vision_tower(policy)


def test_a_process_of_its_own_sees_pictures_by_the_new_vision_tower_after_an_update(tmp_path):
    net = saved_model("qwen2_vl", tmp_path / "model")
    with open_vllm(net, slots=8, context=CONTEXT, separate_process=True) as policy:
        assert_takes_over_the_vision_tower(policy)


@main_family
def test_the_check_after_an_update_sees_an_image(policy, monkeypatch):
    monkeypatch.setattr(policy.engine._engine, "reset_encoder_cache", lambda: None)
    scheduler = policy.engine._engine.engine_core.engine_core.scheduler
    worker = policy.engine._engine.model_executor.driver_worker.worker
    assert worker.model_runner.encoder_cache and scheduler.encoder_cache_manager.cached
    monkeypatch.setattr(worker.model_runner, "reset_encoder_cache", lambda: None)
    perturb_vision_tower(policy.model, 2)
    with pytest.raises(Exception, match=r"disagree by .* nats"):
        policy._push_weights()
    monkeypatch.undo()
    policy._push_weights()


@main_family
def test_the_prefix_cache_tells_pictures_of_one_size_apart(policy):
    how = params(4, 8, stop=())
    one, other = (
        (*prompt_of(policy.model, [picture], "what is it? " * 8), how) for picture in (PICTURES[0], PICTURES[2])
    )
    assert one[0] == other[0]  # the same tokens
    policy.sync_weights()
    counts, mine = [policy.engine.num_cached_tokens], []
    for request in (one, one, other):
        mine += ask(policy, request)
        counts.append(policy.engine.num_cached_tokens)
    assert np.diff(counts).tolist() == [0, len(one[0]) // 32 * 32, 0]
    assert mine[0].ids == mine[1].ids
    np.testing.assert_allclose(mine[0].logprobs, mine[1].logprobs, atol=1e-5)
    assert abs(mine[0].logprobs[0] - mine[2].logprobs[0]) > 1e-4
    for request, reply in ((one, mine[0]), (other, mine[2])):
        (expected,) = ask(hf(policy), request)
        assert reply.ids == expected.ids
        np.testing.assert_allclose(reply.logprobs, expected.logprobs, atol=1e-4)


@main_family
def test_a_sampled_placeholder_is_an_ordinary_token(policy):
    """In a reply, in a reply that goes on after an interruption, and in the next prompt."""
    token = image_inputs(policy.model).token
    prompt, images = prompt_of(policy.model, [PICTURES[0]], "what?")
    requests = [(prompt, images, params(seed, 24, stop=())) for seed in range(16)]
    mine, others = ask(policy, *requests), ask(hf(policy), *requests)
    assert any(token in reply.ids[:-1] for reply in others)
    assert_replies_match(mine, others)
    again = ((*prompt, token, 7, token), images, params(3, 12, stop=()))
    partial = Completion((token, 9, token), (-1.0,) * 3, (-1.0,) * 3, (0,) * 3, "abort")
    for start in (None, partial):
        (reply,), (expected,) = (ask(one, again, resume_from=start) for one in (policy, hf(policy)))
        assert reply.ids == expected.ids
        np.testing.assert_allclose(reply.logprobs, expected.logprobs, atol=1e-4)


@main_family
def test_a_prompt_may_have_as_many_images_as_fit(policy):
    small = [noise(np.random.default_rng(n), (16, 16)) for n in range(70)]
    request = (*prompt_of(policy.model, small, "which?"), params(1, 6, stop=()))
    (reply,), (expected,) = (ask(one, request) for one in (policy, hf(policy)))
    assert reply.ids == expected.ids
    np.testing.assert_allclose(reply.logprobs, expected.logprobs, atol=1e-4)


@no_family
@pytest.mark.parametrize("targets", ["q_proj,v_proj,down_proj", lora.ALL])
def test_adapters_are_served_on_the_language_model_and_merged_on_the_vision_tower(policy, targets, tmp_path, caplog):
    pytest.importorskip("peft")
    net = saved_model("qwen2_vl", tmp_path / "model")
    lora.attach(net, 4, alpha=8, targets=targets)
    with open_vllm(net, slots=8, context=CONTEXT) as policy:
        before, _ = replies("qwen2_vl", policy)
        perturb_adapters(net, 1)
        policy.sync_weights()
        after, _ = replies("qwen2_vl", policy)
        assert_replies_match(after, replies("qwen2_vl", hf(policy))[0])
        assert max(abs(a.logprobs[0] - b.logprobs[0]) for a, b in zip(before, after, strict=True)) > 1e-2
        assert (policy.engine.config.lora_rank > 0) == (targets != lora.ALL)
    assert ("merging them into the weights" in caplog.text) == (targets == lora.ALL)


@no_family
def test_a_start_that_fails_names_torchvision_where_it_is_missing(policy, monkeypatch):
    from vllm.v1.engine.llm_engine import LLMEngine

    def fail(args):
        raise ValueError("Model architectures [...] failed to be inspected.")

    monkeypatch.setattr(LLMEngine, "from_engine_args", fail)
    monkeypatch.setattr("rl.policy.vllm.launch.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"failed to be inspected.*torchvision, which is not installed: docs/vllm.md"):
        open_vllm(vision_model("qwen2_vl")[0], slots=2, context=CONTEXT).__enter__()


def test_another_number_of_tokens_for_an_image_is_noticed():
    model, _ = vision_model("qwen2_vl")
    prompt, images = prompt_of(model, [PICTURES[0]], "what?")
    probe = Probe(image_inputs(model).code(prompt, images))
    snapshot = as_snapshot(probe, image_inputs(model))
    _check_length(snapshot, len(prompt))
    with pytest.raises(ValueError, match=rf"has {len(prompt) + 1} tokens in vLLM and {len(prompt)} by the model's"):
        _check_length(snapshot, len(prompt) + 1)


@no_family
def test_a_run_on_pictures_goes_on_after_an_interruption(policy, tmp_path):
    model, out = tmp_path / "model", tmp_path / "run"
    save_pretrained(*vision_model("qwen2_vl"), model)
    assert train(*words(model, updates="1", engine="vllm"), "--out", str(out)).code == 0
    assert train("--resume", "--updates", "2", "--out", str(out)).code == 0
    lines = metrics(out)
    assert len(lines) == 2
    for line in lines:
        assert line["episodes/errored"] == 0 and line["tokens/trained"] > 0 and line["logp_gap/max"] < 1e-4


@no_family
def test_adapters_on_all_linear_layers_are_trained_with_vllm_in_bfloat16(policy, tmp_path, caplog):
    pytest.importorskip("peft")
    model, out = tmp_path / "model", tmp_path / "run"
    save_pretrained(*vision_model("qwen2_vl"), model)
    how = {"updates": "1", "engine": "vllm", "dtype": "bfloat16", "engine-dtype": "bfloat16", "lora": "4"}
    result = train(*words(model, **how), "--out", str(out))
    assert result.code == 0, result.err
    assert "vLLM serves none there; --engine hf trains them too" in caplog.text
    assert metrics(out)[0]["tokens/trained"] > 0
