"""Bare formulas against numbers of other trainers' functions: what credit is made of, where no credit shows it alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from rl.learner.loss import policy_loss
from rl.methods.estimators import critic_targets, returns, statistics, turn_by_turn
from tests.support.batches import make_tokens
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import recipe_of


@vectors("mt_masked_statistics")
def test_masked_statistics_match(file: str, case: dict[str, Any]) -> None:
    values, mask, expected = array(case["inputs"]["values"]), array(case["inputs"]["mask"]) > 0, case["expected"]
    agrees(file, statistics.mean(values, mask), expected["mean"])
    agrees(file, statistics.variance(values, mask), expected["var"])
    for mode in ("exact", "verl"):
        whitened = statistics.whiten(values, mask, mode=mode)
        agrees(file, whitened, expected["whitened"])
        agrees(file, whitened + statistics.mean(values, mask), expected["whitened_keep_mean"])


def test_equal_numbers_are_whitened_to_0_or_as_verl_does() -> None:
    """verl divides by the count plus 1e-8, and by the root of 1e-8: `n` numbers `c` become about `1e-4 c / n`."""

    def masked_whiten(values: torch.Tensor) -> torch.Tensor:
        """Of `verl/utils/torch_functional.py`, over all values."""
        count = len(values)
        mean = values.sum() / (count + 1e-8)
        variance = ((values - mean) ** 2).sum() / (count + 1e-8) * count / (count - 1)
        return (values - mean) * torch.rsqrt(variance + 1e-8)

    for values in ([0.7] * 5, [-3.0] * 2, [1.0, 1.0, 1.5]):
        expected = masked_whiten(torch.tensor(values, dtype=torch.float64)).numpy()
        result = statistics.whiten(np.array(values), mode="verl")
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert result.any()
        assert statistics.whiten(np.array(values)).any() == (len(set(values)) > 1)
    assert not statistics.whiten(np.array([0.7]), mode="verl").any()  # where verl raises
    np.testing.assert_allclose(statistics.whiten(np.full(5, 0.7), mode="verl"), np.full(5, 1.4e-5), rtol=1e-4)


@vectors("mt_reinforce_plus_plus_advantage")
def test_returns_match_also_where_nothing_was_sampled(file: str, case: dict[str, Any]) -> None:
    rewards, mask = array(case["inputs"]["token_level_rewards"]), array(case["inputs"]["response_mask"]) > 0
    result = returns.reward_to_go(rewards, mask, gamma=case["params"]["gamma"], reset_at_gap=True)
    agrees(file, result, case["expected"]["returns"])


@vectors("mt_seeupo_ratio_update")
def test_the_ratio_carried_to_earlier_turns_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    if "mode" in params:
        kind = {"sequential": "forward", "reverse": "reverse"}[params["mode"]]
        assert turn_by_turn.order(inputs["max_turns"], kind=kind) == case["expected"]["order"]  # type: ignore[arg-type]
        return
    previous = None if inputs["prev_ratio"] is None else array(inputs["prev_ratio"])
    ratio = turn_by_turn.carry_ratio(
        array(inputs["before_log_prob"]),
        array(inputs["after_log_prob"]),
        array(inputs["response_mask"]) > 0,
        previous,
        low=params["clip_low"],
        high=params["clip_high"],
    )
    agrees(file, ratio, case["expected"]["ratio"])


@vectors("mt_archer_targets")
def test_targets_and_losses_of_whole_replies_match(file: str, case: dict[str, Any]) -> None:
    """The recipe's loss has ArCHer's gradient; that loss is linear, so its value is gradient times log-probability."""
    inputs, expected = {key: array(value) for key, value in case["inputs"].items()}, case["expected"]
    for twin in "12":
        target = critic_targets.action_target(
            inputs["reward"], inputs["done"], inputs[f"target_v{twin}_next"], gamma=case["params"]["gamma"]
        )
        agrees(file, target, expected[f"q{twin}_target"])
    advantage = critic_targets.advantage((inputs["q1"], inputs["q2"]), (inputs["v1"], inputs["v2"]))
    agrees(file, advantage, expected["advantage"])
    logp = inputs["action_logp"].tolist()
    batch, recipe = make_tokens(logp, logp, advantage.tolist(), inputs["action_mask"].tolist()), recipe_of("archer")
    marks = replace(batch.labels, turn=torch.where(batch.mask, 0, -1))  # a row is one reply
    policy_loss(replace(batch, share=recipe.reduce(batch.mask.double(), marks), labels=marks), recipe).backward()
    agrees(file, (batch.logp.grad * batch.logp).sum(), expected["actor_loss"])
