"""Methods that leave tokens or members out of the step, worked out by hand: Clip-Cov and Shuffle-R1."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rl.learner.loss import policy_loss, step_streams
from rl.methods import recipe as recipes
from rl.methods.parts import reweigh, step
from tests.support.batches import make_group, make_tokens, make_trajectory

LOGP = [[-0.5, -1.5, 9.0], [-2.5, -3.5, -9.0]]  # the last column was not sampled
COVARIANCE = [3.0, 1.0, 1.0, 3.0]  # with advantages of 2 and -2, and a mean log-probability of -2


@pytest.mark.parametrize(
    "options, left_out",
    [
        ({"share": 2e-4}, {3}),  # at least one, in the middle of those within the bounds
        ({"share": 0.5}, {0, 3}),
        ({"share": 1.0}, {0, 3}),  # as many as there are
        ({"share": 0.5, "high": 2.5}, set()),  # none is between 1 and 2.5: the bounds are strict
        ({"share": 0.75, "low": 0.5, "high": 2.5}, {1, 2}),
    ],
)
def test_clip_cov_leaves_out_tokens_whose_covariance_is_within_the_bounds(options, left_out) -> None:
    recipe = recipes.load("clip_cov").but(step=(partial(step.covariance_clip, **options),))
    batch = make_tokens(LOGP, LOGP, [2.0, -2.0], [[1, 1, 0], [1, 1, 0]])
    with torch.no_grad():
        streams, rate = step_streams(batch, recipe)
    batch = replace(batch, share=recipe.reduce(batch.mask.double(), batch.labels), streams=streams)
    policy_loss(batch, recipe).backward()
    expected = [0.0 if token in left_out else -advantage / 4 for token, advantage in enumerate((2, 2, -2, -2))]
    assert batch.logp.grad[batch.mask].tolist() == pytest.approx(expected)
    assert rate == 1.0


def test_clip_cov_does_not_count_tokens_that_the_clip_stops() -> None:
    """Both have a covariance of 3; the gradient of the first is stopped by its ratio of e, whose advantage is above 0."""
    recipe = recipes.load("clip_cov")
    old = [[LOGP[0][0] - 1.0, *LOGP[0][1:]], LOGP[1]]
    batch = make_tokens(LOGP, old, [2.0, -2.0], [[1, 1, 0], [1, 1, 0]])
    with torch.no_grad():
        streams, _ = step_streams(batch, recipe)
        unclipped, _ = step_streams(batch, recipe.but(step=(partial(step.covariance_clip, clip=9.0, share=1.0),)))
    assert streams["weight"][batch.mask].tolist() == [1, 1, 1, 0]
    assert unclipped["weight"][batch.mask].tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    "rewards, share, members",
    [
        ([1.0, 0.6, 0.5, 0.0], 0.5, {0, 3}),  # the pairs are (0, 3) and (1, 2)
        ([0.5, 0.0, 1.0, 0.9, 0.2, 0.4], 0.5, {1, 2, 3, 4}),  # round(1.5) of (2, 1), (3, 4), (0, 5)
        ([0.5, 0.0, 1.0, 0.9, 0.2, 0.4], 0.1, {1, 2}),  # at least one
        ([0.3, 1.0, 0.0], 1.0, {1, 2}),  # the one in the middle of an odd number has no partner
    ],
)
def test_shuffle_r1_keeps_the_pairs_that_differ_most(rewards, share, members) -> None:
    recipe = recipes.load("shuffle_r1").but(reweigh=(partial(reweigh.contrasting_pairs, share=share),))
    group = make_group(*(make_trajectory((2, reward)) for reward in rewards))
    credit = recipe.credit([group], recipe.normalization)
    (result,) = recipe.reweigh[0]([group], credit)
    expected = (np.array(rewards) - np.mean(rewards)) / (np.std(rewards, ddof=1) + 1e-6)
    for member, tokens in enumerate(result):
        np.testing.assert_allclose(tokens, [expected[member] if member in members else 0.0] * 2, rtol=1e-6)
