"""Adapters in vLLM, beside the weights that they are trained on: what the trainer computes, after every update."""

import os
import signal
from functools import cache

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from rl.policy import lora
from rl.policy.batching import EngineDead
from rl.policy.vllm.process import Process
from tests.support.adapters import adapted, assert_the_trainers, updated
from tests.support.models import shaken, teacher_forced
from tests.support.sampling import params, sampled
from tests.support.vllm import needs_vllm, started

pytest.importorskip("peft")
pytestmark = needs_vllm
LONG = tuple(range(4, 39)) * 2


@cache
def net():
    return adapted()


@pytest.fixture(scope="module")
def policy():
    with started(net(), slots=8) as policy:
        yield policy
        assert policy.engine.asked == {}


@pytest.fixture
def handed(policy, monkeypatch):
    """What the engine is handed from here on: `load` for weights, `wear` for adapters."""
    found = []
    for verb in ("load", "wear"):
        sound = getattr(policy.engine, verb)
        monkeypatch.setattr(policy.engine, verb, lambda *a, _verb=verb, _do=sound: (found.append(_verb), _do(*a))[1])
    return found


def test_after_every_update_adapters_alone_go_over_and_are_what_the_trainer_computes(policy, handed):
    worn, said = [], [assert_the_trainers(policy)]
    for seed in range(4):
        updated(net(), seed)
        policy.refresh()
        assert policy.gap < 1e-4
        worn += policy.engine._engine.list_loras()
        said.append(assert_the_trainers(policy))
    assert handed == ["wear"] * 4
    assert len(worn) == len(set(worn)) == 4  # one at a time, and none twice
    assert len({tuple(reply.ids for reply in replies) for replies in said}) == 5


@pytest.mark.parametrize("guard", ["what is cached is dropped", "it has the adapters' name"])
def test_keys_and_values_of_older_adapters_are_not_used_again(policy, monkeypatch, guard):
    """Either guard does without the other."""
    if guard == "what is cached is dropped":
        monkeypatch.setattr("vllm.v1.core.kv_cache_utils._gen_lora_extra_hash_keys", lambda request: [])
    asked = [(LONG, params(1, 8, stop=()))]
    sampled(policy, *asked)
    before = policy.engine.cached
    sampled(policy, *asked)
    assert policy.engine.cached > before
    if guard == "it has the adapters' name":
        monkeypatch.setattr(policy.engine, "forget", lambda: None)
    updated(net(), 11)
    policy.refresh()
    before = policy.engine.cached
    (reply,) = sampled(policy, *asked)
    assert policy.engine.cached == before
    np.testing.assert_allclose(reply.model_logprobs, teacher_forced(net(), LONG, reply.ids), atol=1e-4)


def test_adapters_that_vllm_leaves_out_or_gets_wrong_are_found_out(policy, monkeypatch):
    def refreshed(change):
        with monkeypatch.context() as patched, pytest.raises(EngineDead) as error:
            patched.setattr(lora, "save", lambda *a, **more: (save(*a, **more), _rewritten(a[1], change)))
            policy.refresh()
        policy.death = None
        return str(error.value)

    save = lora.save
    assert "vLLM serves 13 of 14 adapters" in refreshed(
        lambda name: 1.0 if "layers.1.mlp.up_proj" not in name else None
    )
    assert "disagree by" in refreshed(lambda name: 1.5)
    policy.refresh()
    assert policy.gap < 1e-4


def _rewritten(folder, change):
    """Adapters in a folder multiplied by what `change` gives for their names, or gone where that is None."""
    path = folder / lora.WEIGHTS
    kept = {name: weight * factor for name, weight in load_file(path).items() if (factor := change(name)) is not None}
    save_file(kept, path, metadata={"format": "pt"})


def test_a_cold_start_is_sampled_without_adapters_and_they_go_on_from_its_weights(policy, handed):
    with lora.lifted(net(), trainable=True):
        shaken(net(), 1, 0.02)
        policy.refresh()
        assert policy.engine._engine.list_loras() == set()
        assert_the_trainers(policy)
    policy.refresh()
    assert_the_trainers(policy)
    assert handed == ["load", "load", "wear"]


def test_frozen_weights_wait_in_memory_while_the_trainer_works(policy, handed, monkeypatch):
    """The order of calls alone: no CPU build of vLLM sleeps."""
    inner = policy.engine._engine

    class Sleeper:
        def __getattr__(self, name):
            return getattr(inner, name)

        def sleep(self, level):
            handed.append(f"sleep {level}")

        def wake_up(self, tags):
            handed.extend(tags)

    monkeypatch.setattr(policy.engine, "sleeps", True)
    monkeypatch.setattr(policy.engine, "_engine", Sleeper())
    policy.rest()
    updated(net(), 12)
    policy.refresh()
    assert handed == ["sleep 1", "wear", "weights", "kv_cache"]
    assert_the_trainers(policy)


def test_a_process_of_its_own_gets_base_and_adapters_again_when_it_is_killed(monkeypatch, caplog):
    """With adapters on some layers, of which vLLM joins two with others that have none, and a tied output matrix."""
    net, told, ask = adapted("qwen2", targets="q_proj,up_proj,down_proj", tie_word_embeddings=True), [], Process.ask

    def telling(process, message):
        told.append(message[0])
        if told.count("wear") == 3 and message[0] == "wear":
            os.kill(process.pid, signal.SIGKILL)
        return ask(process, message)

    monkeypatch.setattr(Process, "ask", telling)
    with started(net, slots=8, apart=True) as policy:
        for seed in range(3):
            updated(net, seed)
            policy.refresh()
            assert policy.gap < 1e-4
            assert_the_trainers(policy)
            assert os.listdir(policy.engine._process.home) == []
    first = ["start", "receive", "wear"]
    assert [verb for verb in told if verb != "step"] == [*first, "wear", "wear", *first, "wear"]
    assert [record.getMessage().partition(" (SIGKILL); ")[2] for record in caplog.records] == [
        "starting another one (1 of 3)"
    ]
