"""Keyed sampling is a pure function of seed, position and distribution."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from rl.policy.sampling import keyed_uniforms, mask_top_p_top_k, sample_tokens

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0])
MANY = 20000


def sample_many(logits, *, count=MANY, temperature=1.0, top_p=None, top_k=None, seed=7):
    """`sample_tokens` of `count` tokens at positions 0, 1, ... of one distribution."""
    uniform = torch.as_tensor(keyed_uniforms(np.full(count, seed, np.uint64), np.arange(count)))
    many = logits.expand(count, -1)
    truncates = top_p is not None or top_k is not None
    return sample_tokens(
        many,
        uniform,
        torch.full((count,), temperature),
        torch.full((count,), 1.0 if top_p is None else top_p) if truncates else None,
        torch.full((count,), top_k or 0) if truncates else None,
    )


def test_a_uniform_depends_on_its_own_seed_and_position_only():
    seeds, positions = np.array([5, 5, 9, 2**63], np.uint64), np.array([0, 1, 0, 700])
    together = keyed_uniforms(seeds, positions)
    alone = [keyed_uniforms(seeds[i : i + 1], positions[i : i + 1])[0] for i in (3, 1, 0, 2)]
    assert alone == [together[i] for i in (3, 1, 0, 2)]
    assert len(set(together)) == 4


def test_neighbouring_seeds_and_positions_share_no_number():
    seeds, positions = np.meshgrid(np.arange(300, dtype=np.uint64), np.arange(300))
    values = keyed_uniforms(seeds.ravel(), positions.ravel())
    assert len(np.unique(values)) == 300 * 300
    assert values.min() >= 0 and values.max() < 1


@pytest.mark.parametrize("axis", ["positions", "seeds"])
def test_uniforms_are_uniform_and_uncorrelated_along(axis):
    one, counting = np.full(50000, 3), np.arange(50000)
    pairs = (one, counting) if axis == "positions" else (counting, one)
    values = keyed_uniforms(pairs[0].astype(np.uint64), pairs[1])
    assert chisquare(np.histogram(values, 64, (0, 1))[0]).pvalue > 1e-3
    for lag in (1, 2, 5):
        assert abs(np.corrcoef(values[:-lag], values[lag:])[0, 1]) < 0.02


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_tokens_come_as_often_as_their_probability_says(temperature):
    tokens, behaviour, model = sample_many(LOGITS, temperature=temperature)
    expected = (LOGITS / temperature).softmax(-1)
    probabilities = expected.double().numpy()
    assert chisquare(np.bincount(tokens.numpy(), minlength=5), MANY * probabilities / probabilities.sum()).pvalue > 1e-3
    torch.testing.assert_close(behaviour, expected.log()[tokens])
    torch.testing.assert_close(model, LOGITS.log_softmax(-1)[tokens])


def test_top_k_draws_among_the_k_most_likely_and_says_so_in_its_log_probabilities():
    tokens, behaviour, model = sample_many(LOGITS, top_k=2)
    expected = LOGITS[:2].softmax(-1)
    assert set(tokens.tolist()) == {0, 1}
    torch.testing.assert_close(behaviour, expected.log()[tokens])
    torch.testing.assert_close(model, LOGITS.log_softmax(-1)[tokens])


@pytest.mark.parametrize(("top_p", "num_kept"), [(0.5, 1), (0.6, 2), (0.85, 3), (0.0, 1), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_of_that_mass(top_p, num_kept):
    out = mask_top_p_top_k(LOGITS[None], torch.tensor([top_p]), torch.tensor([0]))  # masses .57 .21 .13 .08 .03
    assert int(out.isfinite().sum()) == num_kept


def test_top_p_applies_after_the_temperature():
    tokens, behaviour, _ = sample_many(LOGITS, temperature=100.0, top_p=0.5)  # nearly flat: three of five
    assert set(tokens.tolist()) == {0, 1, 2}
    assert abs(float(behaviour.exp().mean()) - 1 / 3) < 0.01


def test_temperature_zero_takes_the_most_likely_with_certainty():
    tokens, behaviour, model = sample_many(LOGITS, count=50, temperature=0.0)
    assert tokens.tolist() == [0] * 50
    assert behaviour.tolist() == [0.0] * 50
    torch.testing.assert_close(model, LOGITS.log_softmax(-1)[:1].expand(50))


def test_a_row_keeps_every_bit_whatever_its_neighbours_ask_for():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(65, 3000, generator=generator) * 4
    uniform = torch.rand(65, dtype=torch.float64, generator=generator)
    one, plain = torch.ones(65), torch.zeros(65, dtype=torch.int64)
    alone = sample_tokens(logits, uniform, one)
    among_others = sample_tokens(
        logits,
        uniform,
        torch.cat([one[:-1], torch.tensor([0.3])]),
        torch.cat([one[:-1], torch.tensor([0.9])]),
        torch.cat([plain[:-1], torch.tensor([3])]),
    )
    for before, after in zip(alone, among_others, strict=True):
        assert before[:-1].tolist() == after[:-1].tolist()


def test_what_is_switched_off_takes_away_nothing():
    logits = 4 * torch.randn(8, 3000, generator=torch.Generator().manual_seed(0))  # rounded, its masses pass 1 early
    assert torch.equal(mask_top_p_top_k(logits, torch.ones(8), torch.zeros(8)), logits)


def test_a_token_without_probability_is_never_drawn():
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]).expand(3, -1)
    tokens, behaviour, _ = sample_tokens(
        logits, torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64), torch.ones(3)
    )
    assert tokens.tolist() == [1, 3, 3]
    assert behaviour.isfinite().all()
