"""Backend that begin with another member's tokens: quotas of the first decision, forks and cuts within a reply."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from envs.types import Stop
from rl.methods.estimators.tasks import uncertainty
from rl.methods.options import PartError
from rl.methods.parts.strategy import majority_labels, quota, token_forks
from rl.methods.parts.strategy.replies.token_forks import _cut
from rl.policy.hf import HFPolicy
from rl.policy.vllm.outputs import CoreOutput
from rl.policy.vllm.samples import NativeSamples
from rl.records import Completion, Group, SamplingParams
from rl.seeds import derive
from tests.support.episodes import END, FixedPolicy, LetterAgent, make_runner, make_ticket, without_times
from tests.support.letters import CHANCES, LENGTH, Letters
from tests.support.models import teacher_forced_logprobs
from tests.support.sampling import PROMPT, llama, params, sample_all
from tests.support.trees import Chat


class OneReply(Chat):
    """Ends after the first reply."""

    max_turns = 1


def play(strategy, ticket=None, policy=None, env=OneReply, **more) -> Group:
    runner = make_runner(env, policy or Letters(), LetterAgent, reply_tokens=20, **more)
    (group,) = asyncio.run(asyncio.wait_for(strategy(runner, ticket or make_ticket(size=10)), 20))
    return group


def letter(trajectory, position: int) -> str:
    return chr(trajectory.turns[0].completion.ids[position])


def test_the_first_decision_is_taken_in_the_policys_proportions() -> None:
    errors, free_errors = [], []
    for number in range(20):
        ticket = make_ticket(number, size=20)
        group = play(quota, ticket)
        counts = Counter(letter(member, 1) for member in group.trajectories)
        rare = {letter(group.trajectories[0], 0) == "y"}
        if rare == {False}:
            assert all(abs(counts[one] - 20 * chance) <= 1 for one, chance in CHANCES[1].items()), counts
        errors.append(group.trajectories[0].turns[0].metrics["sampling_error"])
        rng = np.random.default_rng(number)
        free = np.bincount(rng.choice(3, 20, p=[*CHANCES[1].values()]), minlength=3) / 20
        free_errors.append(np.abs(free - [*CHANCES[1].values()]).sum())
    assert np.mean(errors) < 0.3 * np.mean(free_errors)


def test_members_of_a_quota_have_the_policys_own_numbers_and_its_tokens_are_counted_once() -> None:
    policy = Letters()
    group = play(quota, policy=policy)
    first = group.trajectories[0].turns[0].completion
    for member in group.trajectories[1:]:
        reply = member.turns[0].completion
        assert reply.ids[0] == first.ids[0]
        chances = [CHANCES[min(k, len(CHANCES) - 1)] if k < LENGTH else {chr(END): 1.0} for k in range(len(reply.ids))]
        assert reply.logprobs == pytest.approx(
            [math.log(row[chr(id)]) for row, id in zip(chances, reply.ids, strict=True)]
        )
        assert reply.versions == (4,) * len(reply.ids)
        assert not reply.alternatives
        assert member.num_reused == 2
    assert sum(member.num_new_sampled for member in group.trajectories) == policy.num_sampled
    assert len({tuple(member.turns[0].completion.ids[2:]) for member in group.trajectories}) > 2


def test_options_beyond_the_likeliest_are_left_to_chance() -> None:
    group = play(partial(quota, options=1), make_ticket(size=20))
    forced = [member for member in group.trajectories if member.num_reused]
    assert {letter(member, 1) for member in forced} == {"a"}
    assert 11 <= len(forced) + (letter(group.trajectories[0], 1) == "a") <= 13


def test_forks_leave_a_reply_where_the_policy_hesitates() -> None:
    policy = Letters()
    group = play(token_forks, make_ticket(size=12), policy)
    forks = [member for member in group.trajectories if member.num_reused]
    assert forks
    bases = [member.turns[0].completion.ids for member in group.trajectories[:6]]
    for fork in forks:
        ids, length = fork.turns[0].completion.ids, fork.num_reused
        assert length == 6  # the sixth letter is the first open one after four
        assert any(ids[: length - 1] == base[: length - 1] and ids[length - 1] != base[length - 1] for base in bases)
        assert fork.turns[0].completion.logprobs[length - 1] == pytest.approx(
            math.log(CHANCES[5][chr(ids[length - 1])])
        )
    assert len(group.trajectories) == 12
    assert sum(member.num_new_sampled for member in group.trajectories) == policy.num_sampled


def test_a_later_reply_forks_behind_the_turns_before_it() -> None:
    group = play(partial(token_forks, depth=5), make_ticket(size=12), env=partial(Talks))
    forks = [member for member in group.trajectories if member.num_reused]
    assert forks and all(member.fork is None for member in forks)  # the first reply has a fork point itself
    assert all(len(member.turns) == 2 for member in group.trajectories)


class Talks(Chat):
    """Asks twice, whatever it hears."""

    max_turns = 2

    def reply(self, action):
        outcome = super().reply({**action, "content": "b"})
        return outcome


@pytest.mark.parametrize("strategy", [quota, token_forks, partial(majority_labels, forks="tokens")])
@pytest.mark.parametrize("moment", [1, 4, 8, 12, 15, 18])
def test_an_interrupted_group_goes_on_as_if_nothing_had_happened(strategy, moment: int) -> None:
    async def interrupted(runner):
        task = asyncio.create_task(strategy(runner, make_ticket(size=8)))
        for _ in range(moment):
            await asyncio.sleep(0)
        assert not task.done()
        state = pickle.loads(pickle.dumps(runner.play_state.state_dict()))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return state

    expected = play(strategy, make_ticket(size=8))
    state = asyncio.run(interrupted(make_runner(OneReply, Letters(), LetterAgent, reply_tokens=20)))
    group = play(strategy, make_ticket(size=8), state=state)
    assert [without_times(member) for member in group.trajectories] == [
        without_times(member) for member in expected.trajectories
    ]
    assert group.rewards == expected.rewards


def test_a_reply_is_cut_where_confidence_falls_and_ends_its_episode() -> None:
    runner = make_runner(OneReply, Letters(), LetterAgent, reply_tokens=20)
    (group,) = asyncio.run(token_forks(runner, make_ticket(size=4)))
    member = group.trajectories[0]
    reply = member.turns[0].completion
    rows = [[(ord(one), math.log(chance)) for one, chance in CHANCES[min(k, 6)].items()] for k in range(len(reply.ids))]
    member.turns[0].completion = replace(reply, alternatives=tuple(map(tuple, rows)))
    before = member.num_new_sampled
    _cut(member, replace(uncertainty.Limits(), cut_group=0.8))
    assert len(member.turns[0].completion.ids) == 2  # the mean of 0.96 and 0.6 is below, 0.96 is not
    assert member.stop == Stop.TOKEN_LIMIT
    assert (member.reward, member.success, member.turns[0].reply["content"]) == (0.0, False, "")
    assert member.num_new_sampled == before


def test_the_engine_records_the_likeliest_tokens_of_the_distribution_that_it_samples() -> None:
    requests = [
        (PROMPT, params(1, alternatives=3)),
        (PROMPT, params(2, temperature=0.5, alternatives=2)),
        (PROMPT, params(3)),
    ]
    replies = sample_all(HFPolicy(llama(), slots=4), *requests)
    plain = sample_all(
        HFPolicy(llama(), slots=4), *[(prompt, replace(how, alternatives=0)) for prompt, how in requests]
    )
    assert [reply.ids for reply in replies] == [reply.ids for reply in plain]
    assert replies[2].alternatives == ()
    for reply, count, temperature in ((replies[0], 3, 1.0), (replies[1], 2, 0.5)):
        for place, row in enumerate(reply.alternatives):
            assert len(row) == count
            assert [logprob for _, logprob in row] == sorted((logprob for _, logprob in row), reverse=True)
            for token, logprob in row:
                others = (*reply.ids[:place], token)
                assert logprob == pytest.approx(
                    teacher_forced_logprobs(llama(), PROMPT, others, temperature)[-1], abs=2e-5
                )


def test_alternatives_are_not_recorded_of_a_cut_distribution() -> None:
    with pytest.raises(ValueError, match="alternatives are not recorded with top-p or top-k"):
        sample_all(HFPolicy(llama(), slots=1), (PROMPT, params(alternatives=2, top_p=0.5)))


def test_a_reply_that_goes_on_keeps_what_was_recorded() -> None:
    how = params(derive("draft"), alternatives=2)
    (whole,) = sample_all(HFPolicy(llama(), slots=1), (PROMPT, how))
    part = Completion(
        whole.ids[:3],
        whole.logprobs[:3],
        whole.model_logprobs[:3],
        whole.versions[:3],
        "abort",
        alternatives=whole.alternatives[:3],
    )
    (rest,) = sample_all(HFPolicy(llama(), slots=1), (PROMPT, how), resume_from=part)
    assert rest.ids == whole.ids
    assert rest.alternatives[:3] == whole.alternatives[:3]
    assert [[token for token, _ in row] for row in rest.alternatives] == [
        [t for t, _ in row] for row in whole.alternatives
    ]


def test_vllms_own_sampler_tells_the_likeliest_tokens_too() -> None:
    samples = NativeSamples(SimpleNamespace(vllm_config=None))
    how = SamplingParams(alternatives=2)
    assert samples.params(SimpleNamespace(params=how, ids=[]), 0)["logprobs"] == 2  # type: ignore[arg-type]
    rows = SimpleNamespace(logprob_token_ids=np.array([[7, 5, 6, 4]]), logprobs=np.array([[-3.0, -0.2, -2.0, -2.5]]))
    output = CoreOutput(0, [7], rows, False, 1, 0)
    ((token,),) = samples.samples([output], {0: SimpleNamespace(params=how)})  # type: ignore[dict-item]
    assert token == (7, -3.0, -3.0, ((5, -0.2), (6, -2.0)))


@pytest.mark.parametrize("strategy, name", [(quota, "quota"), (token_forks, "token_forks")])
def test_an_engine_that_records_no_alternatives_is_one_line(strategy, name: str) -> None:
    with pytest.raises(PartError, match=f"--strategy {name}: the engine records no likeliest tokens"):
        play(strategy, policy=FixedPolicy())
