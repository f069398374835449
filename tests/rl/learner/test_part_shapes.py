"""A part that returns another shape than its slot asks for stops a run in one line, however it came that far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rl.learner.batch import build_rows
from rl.learner.loss import is_zero_without_advantage, policy_loss
from rl.methods.options import PartError
from rl.methods.parts import credit, needs, penalty
from rl.methods.recipe import Recipe
from tests.support.batches import make_tokens, toy_groups

ROWS = [[0.1, -0.2, 0.3], [0.0, 0.2, 0.1]]


@pytest.mark.parametrize(
    "slot, part, shape",
    [
        ("ratio", lambda tokens: (tokens.logp - tokens.old).sum(-1, keepdim=True), r"\(2, 1\)"),
        ("surrogate", lambda log_ratio, tokens: (-log_ratio * tokens.adv).mean(), r"\(\)"),
        ("select", (lambda tokens: tokens.mask.any(0),), r"\(3,\)"),
        ("penalty", (lambda tokens: tokens.logp.mean(-1)[:, None],), r"\(2, 1\)"),
    ],
)
def test_a_result_that_would_broadcast_is_refused(slot: str, part: Any, shape: str) -> None:
    tokens = make_tokens(ROWS, ROWS, [1.0, -1.0])
    policy_loss(tokens, Recipe())
    with pytest.raises(PartError, match=rf"{slot} returned a tensor of shape {shape}, expected \(2, 3\)"):
        policy_loss(tokens, Recipe().but(**{slot: part}))


@pytest.mark.parametrize("cut", [lambda credits: credits[1:], lambda credits: [[x[1:] for x in c] for c in credits]])
def test_credit_for_other_tokens_than_were_sampled_is_refused(cut: Any) -> None:
    with pytest.raises(PartError, match="another number of advantages than there are sampled tokens"):
        build_rows(toy_groups(), Recipe(credit=lambda groups, norm: cut(credit.outcome(groups, norm))))


@pytest.mark.parametrize("slot", ["credit", "reweigh"])
def test_advantages_that_are_no_finite_numbers_name_the_part(slot: str) -> None:
    def lossy(groups, last):  # type: ignore[no-untyped-def]
        advantages = last if slot == "reweigh" else credit.outcome(groups, last)
        return [[x / 0 * 0 for x in of_group] for of_group in advantages]

    recipe = Recipe(reweigh=(lossy,)) if slot == "reweigh" else Recipe(credit=lossy)
    with np.errstate(all="ignore"), pytest.raises(PartError, match=f"^{slot} lossy: returned the advantage nan"):
        build_rows(toy_groups(), recipe)


def test_a_surrogate_may_read_any_stream_that_it_declares() -> None:
    @needs("ref", "value")
    def to_reference(log_ratio, tokens):
        return -log_ratio * tokens.adv * (tokens.ref - tokens.old_value).exp()

    assert is_zero_without_advantage(Recipe(surrogate=to_reference))
    assert not is_zero_without_advantage(Recipe(penalty=(penalty.kl_k2,)))
