"""The hf engine records the log-probabilities that the model's own forward computes."""

import asyncio
import time

import numpy as np
import pytest
import torch

from rl.policy.hf import HFPolicy
from rl.policy.sampling import keyed_uniforms, sample_tokens
from rl.records import Completion
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, model, next_logits, teacher_forced_logprobs
from tests.support.sampling import PROMPT, STOP, llama, make_prompt, params, sample_all

# What is sampled


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES])
def test_recorded_log_probabilities_are_those_of_the_models_own_forward(kind, temperature):
    net = model(kind)
    policy = HFPolicy(net)
    requests = [(make_prompt(n), params(n, 20, temperature=temperature, stop=())) for n in range(6)]
    for (prompt, _), reply in zip(requests, sample_all(policy, *requests), strict=True):
        np.testing.assert_allclose(
            reply.logprobs, teacher_forced_logprobs(net, prompt, reply.ids, temperature), atol=1e-4
        )
        np.testing.assert_allclose(reply.model_logprobs, teacher_forced_logprobs(net, prompt, reply.ids), atol=1e-4)


@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES])
def test_later_turns_see_the_whole_dialogue(kind):
    net = model(kind)
    policy = HFPolicy(net)

    async def play():
        first = await policy.sample(PROMPT, params(1, stop=()), session="a")
        second_prompt = (*PROMPT, *first.ids, 8, 7)
        return second_prompt, await policy.sample(second_prompt, params(2, stop=()), session="a")

    prompt, reply = asyncio.run(play())
    np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(net, prompt, reply.ids), atol=1e-4)


def test_a_draw_is_that_of_its_seed_and_absolute_position():
    (reply,) = sample_all(HFPolicy(llama()), (PROMPT, params(41, stop=())))
    for k, token in enumerate(reply.ids):
        logits = next_logits(llama(), [*PROMPT, *reply.ids[:k]])[-1:]
        uniform = torch.as_tensor(keyed_uniforms(np.array([41], np.uint64), np.array([len(PROMPT) + k])))
        assert int(sample_tokens(logits, uniform, torch.ones(1))[0]) == token


def test_group_members_differ_by_their_sampling_seed_alone():
    replies = sample_all(HFPolicy(llama()), *((PROMPT, params(seed)) for seed in (1, 2, 3, 1)))
    assert replies[0] == replies[3]
    assert len({reply.ids for reply in replies}) == 3


def test_greedy_replies_take_the_largest_logit_each_time():
    (reply,) = sample_all(HFPolicy(llama()), (PROMPT, params(temperature=0.0, stop=())))
    for k, token in enumerate(reply.ids):
        assert int(next_logits(llama(), [*PROMPT, *reply.ids[:k]])[-1].argmax()) == token
    assert set(reply.logprobs) == {0.0}
    np.testing.assert_allclose(reply.model_logprobs, teacher_forced_logprobs(llama(), PROMPT, reply.ids), atol=1e-4)


def test_top_k_is_part_of_the_behaviour_but_not_of_the_models_log_probability():
    (reply,) = sample_all(HFPolicy(llama()), (PROMPT, params(top_k=2, stop=())))
    for k, (token, behaviour) in enumerate(zip(reply.ids, reply.logprobs, strict=True)):
        best = next_logits(llama(), [*PROMPT, *reply.ids[:k]])[-1].topk(2)
        assert token in best.indices.tolist()
        expected = best.values.log_softmax(-1)[best.indices.tolist().index(token)]
        assert behaviour == pytest.approx(float(expected), abs=1e-4)
    np.testing.assert_allclose(reply.model_logprobs, teacher_forced_logprobs(llama(), PROMPT, reply.ids), atol=1e-4)


@pytest.mark.parametrize("seed", [-1, 2**64 + 5])
def test_any_integer_is_a_seed(seed):
    one, two = sample_all(HFPolicy(llama()), (PROMPT, params(seed)), (PROMPT, params(seed % 2**64)))
    assert one == two


# Where a reply ends


def test_a_stop_token_ends_the_reply_and_belongs_to_it():
    replies = sample_all(HFPolicy(llama()), *((PROMPT, params(seed, 40)) for seed in range(20)))
    for reply in replies:
        assert STOP not in reply.ids[:-1]
        assert (reply.ids[-1] == STOP) == (reply.finish == "stop")
    assert {reply.finish for reply in replies} == {"stop", "length"}


def test_a_reply_has_at_most_max_tokens():
    (reply,) = sample_all(HFPolicy(llama()), (PROMPT, params(max_tokens=4, stop=())))
    assert len(reply.ids) == len(reply.logprobs) == len(reply.model_logprobs) == len(reply.versions) == 4
    assert reply.finish == "length"


def test_nothing_is_drawn_where_no_token_is_allowed():
    policy = HFPolicy(llama())
    (reply,) = sample_all(policy, (PROMPT, params(max_tokens=0)))
    assert reply == Completion((), (), (), (), "length")
    assert policy.stats["steps"] == 0


@pytest.mark.parametrize("room", [1, 2, 5])
def test_the_context_is_used_to_its_last_token(room):
    policy = HFPolicy(llama(), context=16)
    prompt = tuple(range(4, 20 - room))
    (reply,) = sample_all(policy, (prompt, params(max_tokens=50, stop=())))
    assert (len(reply.ids), reply.finish) == (room, "length")
    np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(llama(), prompt, reply.ids), atol=1e-4)


def test_a_reply_may_use_every_position_the_model_has():
    prompt = PROMPT * 25  # 125 of 128
    (reply,) = sample_all(HFPolicy(llama()), (prompt, params(max_tokens=50, stop=())))
    assert len(reply.ids) == 3
    np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(llama(), prompt, reply.ids), atol=1e-4)


@pytest.mark.parametrize("size", [0, 16, 40])
def test_a_prompt_without_room_for_a_token_is_refused_and_disturbs_nobody(size):
    policy = HFPolicy(llama(), context=16)

    async def play():
        fine = asyncio.create_task(policy.sample(PROMPT, params(max_tokens=8)))
        with pytest.raises(ValueError, match=f"{size} tokens"):
            await policy.sample((4,) * size, params())
        return await fine

    assert asyncio.run(play()) == sample_all(HFPolicy(llama()), (PROMPT, params(max_tokens=8)))[0]


def test_a_late_reply_ends_with_what_it_has(monkeypatch):
    policy = HFPolicy(llama())
    compute = policy.forward.logits

    def slow(*work):
        time.sleep(0.02)
        return compute(*work)

    monkeypatch.setattr(policy.forward, "logits", slow)
    late, fine = sample_all(policy, (PROMPT, params(1, 40, stop=(), deadline_s=0.1)), (PROMPT, params(2, 20, stop=())))
    assert late.finish == "deadline"
    assert 0 < len(late.ids) < 40
    assert late.ids == sample_all(HFPolicy(llama()), (PROMPT, params(1, len(late.ids), stop=())))[0].ids
    assert (fine.finish, len(fine.ids)) == ("length", 20)


def test_a_deadline_holds_for_the_wait_for_a_slot_too():
    policy = HFPolicy(llama(), slots=1)
    first, late = sample_all(policy, (PROMPT, params(stop=())), (PROMPT, params(deadline_s=-1.0)))
    assert first.finish == "length"
    assert (late.finish, late.ids) == ("deadline", ())
