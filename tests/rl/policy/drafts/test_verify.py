"""Drafts of replies: what is kept of them, that tokens have the policy's own distribution, and what it saves."""

from __future__ import annotations

import asyncio
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from rl.policy.drafts.verify import keep_probability, residual_token, verify
from rl.policy.hf import HFPolicy
from rl.policy.sampling import keyed_uniforms
from rl.records import Completion, Draft, SamplingParams
from rl.seeds import derive
from tests.support.models import VOCAB, model, teacher_forced_logprobs
from tests.support.sampling import PROMPT, STOP, params, sample_all

TOKENS, LENGTH = 4, 4  # of the enumerable policy: sequences of four tokens of four kinds
FIRST = 7  # position of the first of them
SEQUENCES = [*itertools.product(range(TOKENS), repeat=LENGTH)]


def table(epsilon: float) -> dict[tuple[int, ...], np.ndarray]:
    """Log-probabilities after every prefix: fixed logits, and `epsilon` times fixed noise added to them."""
    rng = np.random.default_rng(0)
    prefixes = [prefix for length in range(LENGTH) for prefix in itertools.product(range(TOKENS), repeat=length)]
    logits = {prefix: rng.normal(size=TOKENS) + epsilon * rng.normal(size=TOKENS) for prefix in prefixes}
    return {prefix: row - math.log(np.exp(row).sum()) for prefix, row in logits.items()}


def chances(policy: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """The probability of every sequence."""
    return np.array([math.exp(sum(policy[s[:t]][s[t]] for t in range(LENGTH))) for s in SEQUENCES])


def sample(policy, seed: int, rule: str, count: int) -> Draft:
    """A draft that `policy` samples with the random numbers of `seed`."""
    ids: tuple[int, ...] = ()
    while len(ids) < LENGTH:
        ids += (drawn(policy, ids, seed),)
    before = [policy[ids[:t]] for t in range(LENGTH)]
    tops = tuple(tuple((int(i), float(row[i])) for i in np.argsort(-row)[:count]) for row in before)
    logprobs = tuple(float(row[token]) for row, token in zip(before, ids, strict=True))
    return Draft(ids, rule, (seed,) * LENGTH, logprobs, tops, lenience=math.exp(0.5))  # type: ignore[arg-type]


def drawn(policy, prefix: tuple[int, ...], seed: int) -> int:
    """The token that `seed` draws behind `prefix`, as the engine does."""
    uniform = keyed_uniforms(np.array([seed], np.uint64), np.array([FIRST + len(prefix)]))[0]
    cumulative = np.exp(policy[prefix]).cumsum()
    return int((cumulative <= uniform * cumulative[-1]).sum())


def rows(policy, ids: tuple[int, ...]) -> torch.Tensor:
    """The logits before each token of a whole sequence, and some behind the last."""
    return torch.tensor(np.array([*(policy[ids[:t]] for t in range(LENGTH)), np.zeros(TOKENS)])).float()


def produce(old, new, seed: int, rule: str, count: int = TOKENS) -> tuple[tuple[int, ...], int]:
    """A whole sequence of `new` from a draft of `old`, and how many of its tokens were kept."""
    draft = sample(old, seed, rule, count)
    how = SamplingParams(seed=derive(seed, "new"))
    verdict = verify(draft, draft.ids, rows(new, draft.ids), how, FIRST)
    ids = tuple(verdict.tokens)[:LENGTH]
    while len(ids) < LENGTH:
        ids += (drawn(new, ids, how.seed),)
    return ids, verdict.num_kept


NUM = 2000


def counts(rule: str, epsilon: float = 0.8, count: int = TOKENS) -> np.ndarray:
    old, new = table(0.0), table(epsilon)
    made = [produce(old, new, seed, rule, count)[0] for seed in range(NUM)]
    index = {sequence: i for i, sequence in enumerate(SEQUENCES)}
    return np.bincount([index[one] for one in made], minlength=len(SEQUENCES))


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Of the chi-square test; sequences that are expected fewer than five times are one class."""
    rare = expected * NUM < 5
    o, e = (np.append(x[~rare], x[rare].sum()) for x in (observed, expected * NUM))
    return float(chisquare(o, e * o.sum() / e.sum()).pvalue)


@pytest.mark.parametrize("rule, count", [("keyed", TOKENS), ("residual", TOKENS), ("residual", 2), ("residual", 1)])
def test_exact_rules_sample_the_policys_own_sequences(rule: str, count: int) -> None:
    observed = counts(rule, count=count)
    assert p_value(observed, chances(table(0.8))) > 0.01
    assert p_value(observed, chances(table(0.0))) < 1e-9


def test_the_rule_of_the_paper_favours_old_sequences() -> None:
    observed = counts("lenient")
    assert p_value(observed, chances(table(0.8))) < 1e-9


def test_the_papers_example_is_kept_with_two_thirds() -> None:
    draft = Draft((1,), "lenient", logprobs=(math.log(0.5),), lenience=math.exp(0.5))
    assert keep_probability(draft, 0, math.log(0.2)) == pytest.approx(0.6595, abs=1e-4)  # exp(0.5) * 0.4
    assert keep_probability(replace(draft, rule="residual", alternatives=(((1, -0.7),),)), 0, math.log(0.2)) == (
        pytest.approx(0.4)
    )
    assert keep_probability(replace(draft, rule="residual", alternatives=(((2, -0.7),),)), 0, math.log(0.2)) == 0.0


def test_kept_and_drawn_tokens_add_up_to_the_policy() -> None:
    """Exactly: the sum over drafted tokens, and a fine grid of the uniform number for the token drawn instead."""
    rng = np.random.default_rng(3)
    old, new = (np.log(rng.dirichlet(np.ones(5))) for _ in range(2))
    top = tuple((int(i), float(old[i])) for i in np.argsort(-old)[:3])
    total = np.zeros(5)
    grid = (np.arange(20000) + 0.5) / 20000
    drawn = np.bincount([residual_token(torch.tensor(new), top, u) for u in grid[::4]], minlength=5) / 5000
    for token in range(5):
        kept = keep_probability(Draft((token,), "residual", (), (float(old[token]),), (top,)), 0, float(new[token]))
        total[token] += math.exp(old[token]) * kept
        total += math.exp(old[token]) * (1 - kept) * drawn
    np.testing.assert_allclose(total, np.exp(new), atol=5e-4)


def changed(scale: float) -> torch.nn.Module:
    """The test model, its weights moved a little."""
    other = model()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(scale * weight.std() * torch.randn(weight.shape, generator=generator))
    return other


def drafts_of(replies: list[Completion], seeds: list[int], rule: str = "keyed") -> list[Draft]:
    return [
        Draft(r.ids, rule, (seed,) * len(r.ids), r.logprobs, r.alternatives)  # type: ignore[arg-type]
        for r, seed in zip(replies, seeds, strict=True)
    ]


def verify_all(policy: HFPolicy, requests, drafts) -> list[Completion]:
    async def together() -> list[Completion]:
        return await asyncio.gather(
            *(policy.sample(prompt, how, draft=draft) for (prompt, how), draft in zip(requests, drafts, strict=True))
        )

    return asyncio.run(together())


SEEDS = [*range(24)]
PROMPTS = [PROMPT[: 2 + seed % 4] for seed in SEEDS]


@pytest.mark.parametrize("slots", [3, 64])
def test_with_its_seed_a_keyed_draft_changes_no_token(slots: int) -> None:
    """Whatever was guessed: the reply is the one that the engine samples without a draft."""
    requests = [(prompt, params(seed, 20)) for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    drafts = drafts_of(sample_all(HFPolicy(model()), *requests), SEEDS)
    drafts[3], drafts[4] = replace(drafts[3], ids=(7,) * 20, seeds=(3,) * 20), replace(drafts[4], ids=(), seeds=())
    other = changed(0.01)
    plain = sample_all(HFPolicy(other), *requests)
    policy = HFPolicy(other, slots=slots)
    replies = verify_all(policy, requests, drafts)
    for reply, alone, draft in zip(replies, plain, drafts, strict=True):
        assert (reply.ids, reply.finish) == (alone.ids, alone.finish)
        np.testing.assert_allclose(reply.logprobs, alone.logprobs, atol=2e-5)
        same = next((t for t in range(len(draft.ids)) if reply.ids[t : t + 1] != draft.ids[t : t + 1]), len(draft.ids))
        assert reply.num_verified == same
    reused = sum(reply.num_verified for reply in replies)
    assert 0.3 < reused / sum(len(reply.ids) for reply in replies) < 0.95
    assert policy.stats["sampled"] == sum(len(reply.ids) for reply in replies) - reused


def test_behind_what_is_kept_the_replys_own_seed_draws() -> None:
    requests = [(prompt, params(seed, 20)) for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    drafts = drafts_of(sample_all(HFPolicy(model()), *requests), SEEDS)
    other = changed(0.01)
    fresh = [(prompt, params(1000 + seed, 20)) for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    replies = verify_all(HFPolicy(other), fresh, drafts)
    for (prompt, how), reply, draft in zip(fresh, replies, drafts, strict=True):
        cut = min(reply.num_verified + (reply.num_verified < len(draft.ids)), len(reply.ids))
        begun = Completion(reply.ids[:cut], reply.logprobs[:cut], reply.model_logprobs[:cut], reply.versions[:cut])

        async def rest(begun=begun, prompt=prompt, how=how):
            return await HFPolicy(other).sample(prompt, how, resume_from=begun)

        assert reply.ids == asyncio.run(rest()).ids


@pytest.mark.parametrize("rule", ["keyed", "residual", "lenient"])
def test_replies_from_drafts_have_the_policys_log_probabilities_now(rule: str) -> None:
    requests = [(prompt, params(seed, 20, alternatives=20)) for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    drafts = drafts_of(sample_all(HFPolicy(model()), *requests), SEEDS, rule)
    other = changed(0.01)
    policy = HFPolicy(other)
    policy.version = 5
    replies = verify_all(policy, [(p, replace(how, seed=50 + how.seed)) for p, how in requests], drafts)
    assert sum(reply.num_verified for reply in replies) > 50
    for (prompt, _), reply in zip(requests, replies, strict=True):
        np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(other, prompt, reply.ids), atol=2e-5)
        assert reply.versions == (5,) * len(reply.ids)
        assert len(reply.alternatives) == len(reply.ids)
        assert all(
            dict(row).get(id, one) == one
            for row, id, one in zip(reply.alternatives, reply.ids, reply.logprobs, strict=True)
        )


def test_a_draft_ends_where_the_reply_does() -> None:
    how = params(1, 20, stop=())
    (whole,) = sample_all(HFPolicy(model()), (PROMPT, how))
    (draft,) = drafts_of([whole], [1])
    policy = HFPolicy(model())
    (short,) = verify_all(policy, [(PROMPT, replace(how, max_tokens=6))], [draft])
    assert (short.ids, short.finish, short.num_verified) == (whole.ids[:6], "length", 6)
    (stopped,) = verify_all(policy, [(PROMPT, replace(how, stop=(whole.ids[3],)))], [draft])
    end = whole.ids.index(whole.ids[3]) + 1
    assert (stopped.ids, stopped.finish, stopped.num_verified) == (whole.ids[:end], "stop", end)
    narrow = HFPolicy(model(), context=len(PROMPT) + 9)
    (full,) = verify_all(narrow, [(PROMPT, how)], [draft])
    assert (full.ids, full.finish) == (whole.ids[:9], "length")
    (longer,) = verify_all(policy, [(PROMPT, replace(how, max_tokens=25))], [draft])
    (alone,) = sample_all(HFPolicy(model()), (PROMPT, replace(how, max_tokens=25)))
    assert longer.ids == alone.ids


def test_drafts_of_a_truncated_distribution_are_refused() -> None:
    with pytest.raises(ValueError, match="temperature above 0 without top-p or top-k"):
        verify_all(HFPolicy(model()), [(PROMPT, params(0, top_k=3))], [Draft((4,), seeds=(0,))])


def test_a_draft_is_dropped_once_a_token_is_there() -> None:
    """An interrupted reply goes on from its tokens, as one without a draft does."""
    how = params(2, 20, stop=())
    (whole,) = sample_all(HFPolicy(model()), (PROMPT, how))
    (draft,) = drafts_of([whole], [2])
    begun = Completion(whole.ids[:1], whole.logprobs[:1], whole.model_logprobs[:1], whole.versions[:1])

    async def resumed() -> Completion:
        return await HFPolicy(model()).sample(PROMPT, how, resume_from=begun, draft=replace(draft, seeds=(9,) * 20))

    reply = asyncio.run(resumed())
    assert (reply.ids, reply.num_verified) == (whole.ids, 0)
    assert VOCAB > STOP
