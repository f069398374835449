"""Adapters that vLLM serves beside the base weights match the trainer after every update."""

import os
import signal
from functools import cache

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from rl.policy import lora
from rl.policy.engine import EngineDead
from rl.policy.vllm.process import EngineProcess
from tests.support.adapters import assert_matches_trainer, model_with_adapters, perturb_adapters
from tests.support.models import perturb_weights, teacher_forced_logprobs
from tests.support.sampling import params, sample_all
from tests.support.vllm import needs_vllm, open_vllm

pytest.importorskip("peft")
pytestmark = needs_vllm
LONG = tuple(range(4, 39)) * 2


@cache
def net():
    return model_with_adapters()


@pytest.fixture(scope="module")
def policy():
    with open_vllm(net(), slots=8) as policy:
        yield policy
        assert policy.engine.requests == {}


@pytest.fixture
def loads(policy, monkeypatch):
    """The names of the engine's loading methods that are called from here on."""
    calls = []
    for method in ("load_weights", "load_adapter_folder"):
        original = getattr(policy.engine, method)
        monkeypatch.setattr(
            policy.engine, method, lambda *a, _method=method, _do=original: (calls.append(_method), _do(*a))[1]
        )
    return calls


def test_after_every_update_adapters_alone_go_over_and_are_what_the_trainer_computes(policy, loads):
    adapter_ids, all_replies = [], [assert_matches_trainer(policy)]
    for seed in range(4):
        perturb_adapters(net(), seed)
        policy.sync_weights()
        assert policy.logprob_gap < 1e-4
        adapter_ids += policy.engine._engine.list_loras()
        all_replies.append(assert_matches_trainer(policy))
    assert loads == ["load_adapter_folder"] * 4
    assert len(adapter_ids) == len(set(adapter_ids)) == 4  # one at a time, and none twice
    assert len({tuple(reply.ids for reply in replies) for replies in all_replies}) == 5


@pytest.mark.parametrize("guard", ["what is cached is dropped", "it has the adapters' name"])
def test_keys_and_values_of_older_adapters_are_not_used_again(policy, monkeypatch, guard):
    """Each of the two guards is sufficient alone."""
    if guard == "what is cached is dropped":
        monkeypatch.setattr("vllm.v1.core.kv_cache_utils._gen_lora_extra_hash_keys", lambda request: [])
    requests = [(LONG, params(1, 8, stop=()))]
    sample_all(policy, *requests)
    before = policy.engine.num_cached_tokens
    sample_all(policy, *requests)
    assert policy.engine.num_cached_tokens > before
    if guard == "it has the adapters' name":
        monkeypatch.setattr(policy.engine, "reset_prefix_cache", lambda: None)
    perturb_adapters(net(), 11)
    policy.sync_weights()
    before = policy.engine.num_cached_tokens
    (reply,) = sample_all(policy, *requests)
    assert policy.engine.num_cached_tokens == before
    np.testing.assert_allclose(reply.model_logprobs, teacher_forced_logprobs(net(), LONG, reply.ids), atol=1e-4)


def test_adapters_that_vllm_leaves_out_or_gets_wrong_are_found_out(policy, monkeypatch):
    def sync_error(change):
        with monkeypatch.context() as patch, pytest.raises(EngineDead) as error:
            patch.setattr(lora, "save", lambda *a, **more: (save(*a, **more), _rewrite_adapters(a[1], change)))
            policy.sync_weights()
        policy.failure = None
        return str(error.value)

    save = lora.save
    assert "vLLM serves 13 of 14 adapters" in sync_error(
        lambda name: 1.0 if "layers.1.mlp.up_proj" not in name else None
    )
    assert "disagree by" in sync_error(lambda name: 1.5)
    policy.sync_weights()
    assert policy.logprob_gap < 1e-4


def _rewrite_adapters(folder, change):
    """Multiply the adapter weights in a folder by `change(name)`; remove those for which it is None."""
    path = folder / lora.WEIGHTS
    weights = {
        name: weight * factor for name, weight in load_file(path).items() if (factor := change(name)) is not None
    }
    save_file(weights, path, metadata={"format": "pt"})


def test_a_cold_start_is_sampled_without_adapters_and_they_go_on_from_its_weights(policy, loads):
    with lora.without_adapters(net(), trainable=True):
        perturb_weights(net(), 1, 0.02)
        policy.sync_weights()
        assert policy.engine._engine.list_loras() == set()
        assert_matches_trainer(policy)
    policy.sync_weights()
    assert_matches_trainer(policy)
    assert loads == ["load_weights", "load_weights", "load_adapter_folder"]


def test_frozen_weights_wait_in_memory_while_the_trainer_works(policy, loads, monkeypatch):
    """Checks the order of calls only: no CPU build of vLLM can sleep."""
    inner = policy.engine._engine

    class Sleeper:
        def __getattr__(self, name):
            return getattr(inner, name)

        def sleep(self, level):
            loads.append(f"sleep {level}")

        def wake_up(self, tags):
            loads.extend(tags)

    monkeypatch.setattr(policy.engine, "can_sleep", True)
    monkeypatch.setattr(policy.engine, "_engine", Sleeper())
    policy.pause()
    perturb_adapters(net(), 12)
    policy.sync_weights()
    assert loads == ["sleep 1", "load_adapter_folder", "weights", "kv_cache"]
    assert_matches_trainer(policy)


def test_a_process_of_its_own_gets_base_and_adapters_again_when_it_is_killed(monkeypatch, caplog):
    """With a tied output matrix, and adapters on layers that vLLM fuses with others that have none."""
    net, messages, send = (
        model_with_adapters("qwen2", targets="q_proj,up_proj,down_proj", tie_word_embeddings=True),
        [],
        EngineProcess.send,
    )

    def deadly_send(process, message):
        messages.append(message[0])
        if messages.count("load_adapter_folder") == 3 and message[0] == "load_adapter_folder":
            os.kill(process.pid, signal.SIGKILL)
        return send(process, message)

    monkeypatch.setattr(EngineProcess, "send", deadly_send)
    with open_vllm(net, slots=8, separate_process=True) as policy:
        for seed in range(3):
            perturb_adapters(net, seed)
            policy.sync_weights()
            assert policy.logprob_gap < 1e-4
            assert_matches_trainer(policy)
            assert os.listdir(policy.engine._process.home) == []
    load = "load_adapter_folder"
    first = ["start", "load_weight_file", load]
    assert [verb for verb in messages if verb != "step"] == [*first, load, load, *first, load]
    assert [record.getMessage().partition(" (SIGKILL); ")[2] for record in caplog.records] == [
        "starting another one (1 of 3)"
    ]
