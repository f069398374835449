"""The hf engine while weights change, requests are cancelled and resumed, and steps fail."""

import asyncio
import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

from rl.policy.cached_forward import make_forward
from rl.policy.hf import HFPolicy
from rl.policy.model_config import max_sequence_length
from rl.policy.sampling import keyed_uniforms, sample_tokens
from rl.records import Completion
from tests.support.models import model, next_logits, perturb_weights, teacher_forced_logprobs
from tests.support.sampling import PROMPT, assert_same_replies, llama, make_prompt, params, sample_all, wait_for_tokens

# Weights that change


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_a_weight_swap_in_mid_reply_takes_effect_from_the_next_token_on(kind):
    net = model(kind)
    before, after = model(kind), model(kind)
    perturb_weights(after, 1)
    policy = HFPolicy(net)

    async def play():
        tasks = [asyncio.create_task(policy.sample(PROMPT, params(n, 24, stop=()), session=f"{n}")) for n in range(3)]
        await wait_for_tokens(policy, "0", 5)
        perturb_weights(net, 1)
        await wait_for_tokens(policy, "0", 8)  # the trainer has moved on, but has not handed its weights over
        policy.sync_weights()
        return await asyncio.gather(*tasks)

    for number, reply in enumerate(asyncio.run(play())):
        swap = reply.versions.index(1)
        assert reply.versions == (0,) * swap + (1,) * (24 - swap)
        assert swap >= 8
        np.testing.assert_allclose(
            reply.logprobs[:swap], teacher_forced_logprobs(before, PROMPT, reply.ids)[:swap], atol=1e-4
        )
        np.testing.assert_allclose(
            reply.logprobs[swap:], teacher_forced_logprobs(after, PROMPT, reply.ids)[swap:], atol=1e-4
        )
        for k, token in enumerate(reply.ids):
            logits = next_logits(before if k < swap else after, [*PROMPT, *reply.ids[:k]])[-1:]
            uniform = torch.as_tensor(keyed_uniforms(np.array([number], np.uint64), np.array([len(PROMPT) + k])))
            assert int(sample_tokens(logits, uniform, torch.ones(1))[0]) == token


def test_no_key_of_older_weights_survives_in_a_parked_session():
    net = model()
    policy = HFPolicy(net)

    async def play():
        first = await policy.sample(PROMPT, params(1), session="a")
        perturb_weights(net, 2)
        policy.sync_weights()
        prompt = (*PROMPT, *first.ids, 8)
        return prompt, await policy.sample(prompt, params(2, stop=()), session="a")

    prompt, reply = asyncio.run(play())
    assert set(reply.versions) == {1}
    np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(net, prompt, reply.ids), atol=1e-4)


# Interruptions


@pytest.mark.parametrize("cut", [0, 1, 7, 11])
def test_a_reply_resumed_from_what_was_received_is_the_same(cut):
    how = params(9, 12, stop=(), temperature=0.8)
    (whole,) = sample_all(HFPolicy(llama()), (PROMPT, how))
    parts = (whole.ids, whole.logprobs, whole.model_logprobs, whole.versions)
    resume_from = Completion(*(part[:cut] for part in parts), "abort")
    (again,) = sample_all(HFPolicy(llama()), (PROMPT, how), resume_from=resume_from)
    assert_same_replies([again], [whole])
    assert again.logprobs[:cut] == whole.logprobs[:cut]
    assert len(again.model_logprobs) == len(again.versions) == 12


@pytest.mark.parametrize("seed", range(6))
def test_a_reply_received_complete_costs_nothing(seed):
    (whole,) = sample_all(HFPolicy(llama()), (PROMPT, params(seed)))
    policy = HFPolicy(llama())
    assert sample_all(policy, (PROMPT, params(seed)), resume_from=whole) == [whole]
    assert policy.stats["steps"] == 0


def test_received_tokens_keep_the_version_that_drew_them():
    resume_from = Completion((5, 6), (-1.0, -2.0), (-1.0, -2.0), (3, 4), "abort")
    policy = HFPolicy(llama())
    policy.version = 7
    (reply,) = sample_all(policy, (PROMPT, params(max_tokens=4, stop=())), resume_from=resume_from)
    assert reply.versions == (3, 4, 7, 7)
    assert reply.logprobs[:2] == (-1.0, -2.0)


def test_partial_shows_a_reply_at_any_moment_and_resumes_it_elsewhere():
    (whole,) = sample_all(HFPolicy(llama()), (PROMPT, params(9, 10, stop=())))
    policy = HFPolicy(llama(), slots=1)
    partials = {}

    async def play():
        other = asyncio.create_task(policy.sample((8, 8), params(0, 3, stop=())))
        task = asyncio.create_task(policy.sample(PROMPT, params(9, 10, stop=()), session="a"))
        while not task.done():
            await asyncio.sleep(0)
            if (partial := policy.partial("a")) is not None:
                partials[len(partial.ids)] = partial
        await other

    asyncio.run(play())
    assert sorted(partials) == list(range(11))
    assert policy.partial("nobody") is None
    for partial in partials.values():
        assert partial.finish == ("length" if len(partial.ids) == 10 else "abort")
        again = sample_all(HFPolicy(llama()), (PROMPT, params(9, 10, stop=())), resume_from=partial)
        assert_same_replies(again, [whole])


def test_a_released_session_has_no_partial_reply():
    policy = HFPolicy(llama())

    async def play():
        await policy.sample(PROMPT, params(), session="a")
        policy.release("a")
        return policy.partial("a")

    assert asyncio.run(play()) is None


def test_a_cancelled_request_frees_its_slot_and_leaves_the_others_alone():
    policy = HFPolicy(llama(), slots=3)

    async def play():
        tasks = [
            asyncio.create_task(policy.sample(make_prompt(n), params(n, 20, stop=()), session=f"{n}")) for n in range(6)
        ]
        await wait_for_tokens(policy, "1", 3)
        tasks[1].cancel()  # live
        tasks[4].cancel()  # waiting
        return await asyncio.gather(*tasks, return_exceptions=True)

    replies = asyncio.run(play())
    for n, reply in enumerate(replies):
        if n in (1, 4):
            assert isinstance(reply, asyncio.CancelledError)
        else:
            assert_same_replies([reply], sample_all(HFPolicy(llama()), (make_prompt(n), params(n, 20, stop=()))))


def test_cancelling_the_only_request_is_no_fault():
    policy = HFPolicy(llama())
    faults = []

    async def play():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["message"]))
        task = asyncio.create_task(policy.sample(PROMPT, params(0, 50, stop=()), session="a"))
        await wait_for_tokens(policy, "a")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for _ in range(20):
            await asyncio.sleep(0)
        gc.collect()
        return await policy.sample(PROMPT, params(3), session="a")

    assert_same_replies([asyncio.run(play())], sample_all(HFPolicy(llama()), (PROMPT, params(3))))
    assert faults == []


def test_an_engine_serves_one_event_loop_after_another():
    policy = HFPolicy(llama(), slots=2)
    loop = asyncio.new_event_loop()

    async def leave():
        tasks = [
            asyncio.create_task(policy.sample(make_prompt(n), params(n, 40, stop=()), session="a")) for n in range(4)
        ]
        await wait_for_tokens(policy, "a")
        return tasks

    tasks = loop.run_until_complete(leave())
    loop.set_exception_handler(lambda loop, context: None)  # which says that they were left pending
    loop.close()
    left = [tasks, policy.driver]

    async def play():
        task = asyncio.create_task(policy.sample(PROMPT, params(3, 20, stop=()), session="b"))
        await wait_for_tokens(policy, "b", 5)
        left.clear()  # the old driver ends now, and must leave the new one alone
        gc.collect()
        return await task

    del tasks
    assert_same_replies([asyncio.run(play())], sample_all(HFPolicy(llama()), (PROMPT, params(3, 20, stop=()))))


# Faults


@pytest.mark.parametrize("where", ["forward", "admission"])
def test_a_failing_step_reaches_every_caller_and_the_engine_recovers(monkeypatch, where):
    policy = HFPolicy(llama(), slots=2)
    target, name = (policy.forward, "logits") if where == "forward" else (policy.cache, "reserve")
    original = getattr(target, name)
    countdown, complaints = iter([*[False] * 3, True]), []

    def failing(*work):
        if next(countdown, False):
            raise MemoryError("none left")
        return original(*work)

    monkeypatch.setattr(target, name, failing)

    async def play():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        requests = [policy.sample(make_prompt(n), params(n, 20, stop=()), session=f"{n}") for n in range(5)]
        errors = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 20)
        gc.collect()
        return errors, [await policy.sample(make_prompt(n), params(n), session=f"{n}") for n in range(5)]

    errors, after = asyncio.run(play())
    assert [str(error) for error in errors] == ["sampling failed: MemoryError: none left"] * 5
    assert all(isinstance(error.__cause__, MemoryError) for error in errors)
    assert complaints == []
    assert_same_replies(after, [sample_all(HFPolicy(llama()), (make_prompt(n), params(n)))[0] for n in range(5)])


def test_weights_that_are_not_finite_are_a_fault_and_not_a_token():
    net = model()
    policy = HFPolicy(net)
    with torch.no_grad():
        net.lm_head.weight.fill_(float("nan"))
    policy.sync_weights()
    with pytest.raises(RuntimeError, match="not finite"):
        sample_all(policy, (PROMPT, params()))


@pytest.mark.parametrize(("kind", "changes"), [("rwkv", {}), ("mamba", {"pad_token_id": 0}), ("bloom", {})])
def test_a_model_that_a_cache_of_keys_and_values_cannot_hold_is_refused_by_name(kind, changes):
    with pytest.raises(ValueError, match=f"model type '{kind}' cannot be sampled"):
        make_forward(model(kind, **changes))


def test_a_model_that_ignores_positions_is_refused():
    net = model("gpt2")
    forward = net.forward
    net.forward = lambda position_ids=None, **inputs: forward(**inputs)
    with pytest.raises(ValueError, match="model type 'gpt2' cannot be sampled"):
        make_forward(net)


@pytest.mark.parametrize(
    ("kind", "changes", "limit"),
    [
        ("llama", {}, 128),
        ("gemma3_text", {"sliding_window": 48}, 48),
        ("mistral", {"sliding_window": 32}, 32),
        ("qwen2", {"sliding_window": 32, "use_sliding_window": False}, 128),
    ],
)
def test_sequences_stay_within_the_window_that_every_layer_attends_to(kind, changes, limit):
    net = model(kind, **changes)
    assert max_sequence_length(net) == HFPolicy(net).context == limit
    prompt = PROMPT * (limit // 5 - 1)
    (reply,) = sample_all(HFPolicy(net), (prompt, params(max_tokens=200, stop=())))
    assert len(prompt) + len(reply.ids) == limit
    np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(net, prompt, reply.ids), atol=1e-4)
    with pytest.raises(ValueError, match=f"2 to {limit}"):
        HFPolicy(net, context=limit + 1)


def test_sampling_leaves_the_model_and_the_global_luck_as_they_were():
    net = model()
    net.train()
    state = torch.get_rng_state()
    sample_all(HFPolicy(net), (PROMPT, replace(params(), top_p=0.9)))
    assert net.training
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())
    assert torch.equal(torch.get_rng_state(), state)
