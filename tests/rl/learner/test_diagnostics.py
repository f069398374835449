"""What an update measures of itself."""

from __future__ import annotations

import math

import pytest

from rl.learner.diagnostics import Diagnostics, list_warnings
from tests.support.batches import make_tokens


def test_demonstrations_have_no_mismatch_of_sampler_and_trainer() -> None:
    """Their tokens were not sampled, and stand in the records with a log-probability of 0."""
    own, expert = [-0.1, -0.3], [-2.0, -3.0]
    seen = Diagnostics()
    tokens = make_tokens([own, expert], [[-0.1, -0.2], [0.0, 0.0]], [1.0, 1.0])
    seen.add(tokens, tokens.logp.sum().detach())
    seen.end_step(1.0)
    mismatch = seen.means()["kl/sampler_trainer"]
    assert mismatch == pytest.approx((math.exp(-0.1) - 1 + 0.1) / 2, abs=1e-6)
    assert seen.means()["logp_gap/max"] == pytest.approx(0.1, abs=1e-6)

    alone = Diagnostics()
    tokens = make_tokens([expert], [[0.0, 0.0]], [1.0])
    alone.add(tokens, tokens.logp.sum().detach())
    alone.end_step(1.0)
    assert list_warnings(alone.means(), lag=0) == []
