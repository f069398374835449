"""Credit of information gains: each recipe's own credit against numbers that the authors' own functions gave."""

from __future__ import annotations

from typing import Any

import numpy as np

from envs.types import Stop
from rl.methods.estimators import gains, statistics, turn_table
from rl.records import Trajectory
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import Records, metrics, part, recipe_of, sequences, turn

RAW = "group_mean:singleton=raw"


@vectors("mt_igpo_info_gain")
def test_gains_of_the_answer_s_probability_match(file: str, case: dict[str, Any]) -> None:
    means = np.array([np.mean(logprobs) for logprobs in case["inputs"]["gt_token_logprobs_before_each_turn"]])
    agrees(file, np.exp(means), case["expected"]["gt_prob"])
    agrees(file, gains.answer_gain(np.exp(means)), case["expected"]["info_gain_prob_diff"])
    agrees(file, gains.answer_gain(means), case["expected"]["info_gain_log_prob_diff"])


@vectors("mt_igpo_turn_advantage")
def test_gains_compared_before_the_sum_match(file: str, case: dict[str, Any]) -> None:
    """The last turn's number is the outcome, the others are gains."""
    inputs, params = case["inputs"], case["params"]
    trajectories = [
        Trajectory(
            [*(turn(1, metrics={"gain": gain}) for gain in rewards[:-1]), turn(1, rewards[-1], metrics={"gain": 0.0})],
            Stop.TERMINATED,
        )
        for rewards in inputs["turn_rewards"]
    ]
    assert params["epsilon"] == 1e-6
    credit = part(
        "information_gain",
        among=params["norm_mode"],
        centre="rewards",
        norm_by_std=params["norm_by_std"],
        gamma=params["gamma"],
        gain_weight=params["info_gain_weight"],
        outcome_weight=params["outcome_weight"],
    )
    result = Records(trajectories, inputs["index"]).on_turns(recipe_of("igpo", credit=credit))
    agrees(file, result, np.concatenate([array(row) for row in case["expected"]["turn_advantages"]]))


@vectors("mt_infopo_info_gain")
def test_gains_of_feedback_match(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    real, placeholder = (array(inputs[f"next_action_logp_{name}_feedback"]) for name in ("with", "masked"))
    gain = gains.feedback_gain(real, placeholder)
    agrees(file, gain, expected["info_gain"])
    agrees(file, gain / inputs["acting_turn_len"], expected["per_token_reward"])


@vectors("mt_infopo_fusion")
def test_gated_gains_match_token_by_token(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    mask = array(inputs["response_mask"]) > 0
    intrinsic = array(inputs["token_level_intrinsic"])
    records = sequences(mask, inputs["index"], array(inputs["token_level_rewards"]).sum(1))
    for trajectory, tokens in zip(
        records.trajectories, [r[m] for r, m in zip(intrinsic, mask, strict=True)], strict=True
    ):
        ends = np.cumsum([len(own.completion.ids) for own in trajectory.turns])
        for own, numbers in zip(trajectory.turns, np.split(tokens, ends[:-1]), strict=True):
            own.streams["gain"] = tuple(numbers.tolist())
    beta = params["intrinsic_weight"] * np.exp(-params["decay_rate"] * params["epoch"])
    options = {"temperature": params["gate_temperature"], "normalize_intrinsic": params["normalize_intrinsic"]}

    def credit(beta: float) -> np.ndarray:
        words = part("gated_gain", beta=beta, per_token=True, **options)
        scale = part("group_std", eps=params["epsilon"])
        return records.on_tokens(recipe_of("infopo", credit=words, baseline=RAW, scale=scale))

    agrees(file, credit(float(beta)), array(expected["advantages"])[mask])
    agrees(file, credit(0.0), array(expected["outcome_advantage"])[mask])
    table = turn_table.from_groups(records.groups)
    gain, key = intrinsic[mask], np.repeat(table.group, table.lengths)
    if params["normalize_intrinsic"]:
        gain = gains.standardise_nonzero(gain, key, eps=params["epsilon"])
    agrees(file, gain, array(expected["intrinsic_advantage"])[mask])
    agrees(file, gains.magnitude_ratio(array(expected["outcome_advantage"])[mask], gain), expected["magnitude_ratio"])
    spread = np.where(statistics.group_size(table.group) == 1, 1.0, statistics.group_std(table.returns, table.group))
    agrees(file, gains.gate(spread, temperature=params["gate_temperature"]), expected["gate"])


@vectors("mt_stepsearch_step_reward")
def test_searches_are_paid_their_gain_less_their_redundancy(file: str, case: dict[str, Any]) -> None:
    """Without discount, bootstrapping and values, credit is the reward of each step."""
    expected = case["expected"]
    columns = metrics(gain=expected["info_gain"], redundancy=expected["redundancy"])
    trajectory = Trajectory([turn(1, metrics=row) for row in columns], Stop.TERMINATED)
    for own in trajectory.turns:
        own.streams["value"] = (0.0,)
    credit = part("gae_with_gain", weight=1.0, gamma=0.0, lam=0.0, whiten=False)
    agrees(file, Records([trajectory], [0]).on_turns(recipe_of("step_search", credit=credit)), expected["step_score"])
