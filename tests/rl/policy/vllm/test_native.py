"""vLLM's own sampler, scheduling ahead: its log-probabilities, and which properties of the keyed draws remain."""

import asyncio
import math
import os
import signal
import weakref
from functools import cache

import numpy as np
import pytest
import torch

from rl.policy.sampling import mask_top_p_top_k
from rl.policy.vllm.engine_client import VLLMEngineClient
from tests.support.models import perturb_weights, teacher_forced_logprobs
from tests.support.sampling import PROMPT, STOP, make_prompt, params, sample_all, wait_for_tokens
from tests.support.vllm import needs_vllm, open_vllm, vllm_model

pytestmark = needs_vllm
BLOCK = 32
LONG = tuple(4 + n % 30 for n in range(2 * BLOCK + 5))


@cache
def net():
    return vllm_model()


def schedule_ahead(patch):
    """Let the CPU build schedule ahead, which it would not do by itself, as vLLM does on a GPU."""
    from vllm.platforms.cpu import CpuPlatform

    check = CpuPlatform.check_and_update_config

    def check_and_update_config(cls, config):
        check(config)
        config.scheduler_config.async_scheduling = True

    patch.setattr(CpuPlatform, "check_and_update_config", classmethod(check_and_update_config))


@pytest.fixture(scope="module", params=["", "scheduling ahead", "a process of its own"])
def policy(request):
    with pytest.MonkeyPatch.context() as patch:
        is_ahead, is_apart = request.param == "scheduling ahead", request.param == "a process of its own"
        if is_ahead:
            schedule_ahead(patch)
        with open_vllm(net(), slots=8, draws="native", separate_process=is_apart) as policy:
            references = []
            if not is_apart:
                engine = policy.engine._engine
                assert (engine.engine_core.engine_core.batch_queue is not None) is is_ahead
                references = [weakref.ref(engine), weakref.ref(engine.model_executor.driver_worker.worker)]
                del engine
            yield policy
            assert policy.engine.requests == {}
        assert [reference() for reference in references] == [None] * len(references)  # and so is its memory


def test_a_reply_is_the_same_alone_and_in_company(policy):
    requests = [(make_prompt(n), params(n, 12)) for n in range(64)]
    together = sample_all(policy, *requests)
    alone = [sample_all(policy, request)[0] for request in requests]
    assert [reply.ids for reply in together] == [reply.ids for reply in alone]
    for mine, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(mine.logprobs, other.logprobs, atol=1e-5)
    assert len({reply.ids for reply in sample_all(policy, *((PROMPT, params(n, 12, stop=())) for n in range(20)))}) > 15


@pytest.mark.parametrize(
    "changes", [{}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.4, "top_k": 5}, {"temperature": 0.0}], ids=str
)
def test_log_probabilities_are_those_of_the_distribution_that_was_sampled(policy, changes):
    requests = [(make_prompt(n), params(n, 20, **changes)) for n in range(12)]  # more than there are slots
    for (prompt, how), reply in zip(requests, sample_all(policy, *requests), strict=True):
        assert reply.finish == ("stop" if reply.ids[-1] == STOP else "length")
        ids = torch.tensor([[*prompt, *reply.ids]])
        with torch.no_grad():
            logits = net()(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        model = teacher_forced_logprobs(net(), prompt, reply.ids)
        if not how.temperature:
            assert set(reply.logprobs) == {0.0} and logits.argmax(-1).tolist() == list(reply.ids)
            np.testing.assert_allclose(reply.model_logprobs, model, atol=1e-5)
            continue
        scaled = (logits / how.temperature).log_softmax(-1)
        count = len(reply.ids)
        cut = mask_top_p_top_k(scaled, torch.full((count,), how.top_p), torch.full((count,), max(how.top_k, 0)))
        expected = cut.log_softmax(-1).gather(1, torch.tensor(reply.ids)[:, None]).squeeze(1)
        np.testing.assert_allclose(reply.logprobs, expected, atol=1e-5)
        if changes:
            assert all(map(math.isnan, reply.model_logprobs))
        else:
            np.testing.assert_allclose(reply.model_logprobs, model, atol=1e-5)


def test_new_weights_take_effect_in_mid_reply_and_the_numbers_drawn_before_are_not_drawn_again(policy):
    """Steps that were scheduled ahead with the old weights leave no token and no block behind."""
    updated_model, version = vllm_model(), policy.version
    perturb_weights(updated_model, 1, 0.05)

    async def play():
        tasks = [asyncio.create_task(policy.sample(PROMPT, params(n, 24, stop=()), session=f"{n}")) for n in range(3)]
        await wait_for_tokens(policy, "0", 8)
        policy.model.load_state_dict(updated_model.state_dict())
        policy.sync_weights()
        return await asyncio.gather(*tasks)

    try:
        for reply in asyncio.run(play()):
            swap = reply.versions.index(version + 1)
            assert reply.versions == (version,) * swap + (version + 1,) * (24 - swap) and 8 <= swap < 24
            old, new = (teacher_forced_logprobs(one, PROMPT, reply.ids) for one in (vllm_model(), updated_model))
            np.testing.assert_allclose(reply.logprobs[:swap], old[:swap], atol=1e-4)
            np.testing.assert_allclose(reply.logprobs[swap:], new[swap:], atol=1e-4)
            assert reply.ids[swap:] != reply.ids[: 24 - swap]
    finally:
        policy.model.load_state_dict(vllm_model().state_dict())
        policy.sync_weights()


def test_prefixes_stay_cached_until_weights_change(policy):
    async def play():
        counts = [policy.engine.num_cached_tokens]
        reply = await policy.sample(LONG, params(1, stop=()), session="a")
        counts.append(policy.engine.num_cached_tokens)
        await policy.sample((*LONG, *reply.ids, 8, 7), params(2, stop=()), session="a")
        counts.append(policy.engine.num_cached_tokens)
        return np.diff(counts).tolist(), len(reply.ids)

    policy.sync_weights()
    (first, second), length = asyncio.run(play())
    assert (first, second) == (0, (len(LONG) + length) // BLOCK * BLOCK)
    (again, _), _ = asyncio.run(play())
    assert again == len(LONG) // BLOCK * BLOCK
    policy.sync_weights()
    assert asyncio.run(play())[0][0] == 0


def test_a_cancelled_request_and_a_late_one_leave_the_others_alone(policy):
    async def play():
        tasks = [
            asyncio.create_task(policy.sample(make_prompt(n), params(n, 20, stop=()), session=f"{n}")) for n in range(9)
        ]
        await wait_for_tokens(policy, "1", 3)
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    replies = asyncio.run(play())
    assert isinstance(replies[1], asyncio.CancelledError)
    whole = sample_all(policy, *((make_prompt(n), params(n, 20, stop=())) for n in range(9)))
    assert [one.ids for n, one in enumerate(replies) if n != 1] == [one.ids for n, one in enumerate(whole) if n != 1]


@pytest.mark.parametrize("moment", ["between steps", "with an unread answer", "before new weights"])
def test_a_process_that_dies_a_step_ahead_loses_no_token(policy, moment):
    if not isinstance(policy.engine, VLLMEngineClient):
        pytest.skip("there is one process")

    async def play():
        requests = [(make_prompt(n), params(n, 16, stop=())) for n in range(6)]
        tasks = [asyncio.create_task(policy.sample(*one, session=f"{n}")) for n, one in enumerate(requests)]
        await wait_for_tokens(policy, "0", 5)
        assert policy.engine._process.is_pending
        if moment == "with an unread answer":
            assert policy.engine._process._channel.poll(60)
        os.kill(policy.engine.pid, signal.SIGKILL)
        if moment == "before new weights":
            policy.sync_weights()
        return requests, await asyncio.gather(*tasks)

    pid = policy.engine.pid
    requests, replies = asyncio.run(play())
    assert policy.engine.pid != pid and policy.failure is None and policy.engine.requests == {}
    for (prompt, _), reply in zip(requests, replies, strict=True):
        assert len(reply.ids) == 16
        np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(net(), prompt, reply.ids), atol=1e-4)


def test_a_process_of_its_own_reads_the_weights_where_they_are(monkeypatch):
    """On a CPU through shared memory; on a GPU the same messages carry CUDA's handles."""
    from rl.policy.vllm import engine_client

    def refuse(*arguments):
        raise AssertionError("the weights went through a file")

    monkeypatch.setattr("rl.policy.vllm.policy.make_engine_config", sharing)
    monkeypatch.setattr(engine_client, "write_weights", refuse)
    torch.multiprocessing.set_sharing_strategy("file_system")
    model = vllm_model("qwen3", tie_word_embeddings=True)
    with open_vllm(model, slots=4, separate_process=True, draws="native") as policy:
        for seed in (1, 2):
            assert policy.logprob_gap < 1e-4
            (reply,) = sample_all(policy, (PROMPT, params(seed, 16, stop=())))
            np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(model, PROMPT, reply.ids), atol=1e-4)
            perturb_weights(model, seed, 0.02)
            policy.sync_weights()


def sharing(*arguments, **options):
    from rl.policy.vllm.engine_config import make_engine_config

    return make_engine_config(*arguments, **options)._replace(shares_memory=True)
