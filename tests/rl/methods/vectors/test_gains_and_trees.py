"""Credit from information gains and from trees, against numbers of the authors' functions or derived by hand.

Releases that differ from our defaults are composed here of the same parts: IGPO's earlier ones compare returns token by
token, InfoPO's spreads a gain over its turn's tokens first and keeps the reward of a group of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from envs.grading import retrieval
from rl.methods.estimators import gains, returns, statistics, subsets, trees, turn_table
from rl.methods.parts import baseline, scale
from rl.methods.recipe import Recipe
from tests.rl.methods.vectors.test_turns import RAW, compared, turns_of
from tests.support.vector_cases import agrees, array, vectors


def ragged(rows: list[list[float]]) -> tuple[list[str], np.ndarray]:
    """Labels of the rows and their numbers, flat."""
    return [f"{i:04}" for i, row in enumerate(rows) for _ in row], np.concatenate([array(row) for row in rows])


@vectors("mt_igpo_info_gain")
def test_gains_of_the_answer_s_probability_match(file: str, case: dict[str, Any]) -> None:
    means = np.array([np.mean(logprobs) for logprobs in case["inputs"]["gt_token_logprobs_before_each_turn"]])
    agrees(file, np.exp(means), case["expected"]["gt_prob"])
    agrees(file, gains.answer_gain(np.exp(means)), case["expected"]["info_gain_prob_diff"])
    agrees(file, gains.answer_gain(means), case["expected"]["info_gain_log_prob_diff"])


@vectors("mt_igpo_turn_advantage")
def test_gains_compared_before_the_sum_match(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    names, paid = ragged(inputs["turn_rewards"])
    counts = [len(row) for row in inputs["turn_rewards"]]
    rows = turns_of(names, paid, np.repeat(inputs["index"], counts).tolist())
    told = gains.told_turns(rows.index, rows.counts, rows.trajectory)
    paid = paid * np.where(told, params["info_gain_weight"], params["outcome_weight"])
    group = rows.group[rows.trajectory]
    key = group if params["norm_mode"] == "joint" else turn_table.labels(group, told)
    scored = gains.standardised(paid, key, scale=params["norm_by_std"], eps=params["epsilon"])
    found = turn_table.to_go(rows, scored, gamma=params["gamma"])
    agrees(file, found, np.concatenate([array(row) for row in case["expected"]["turn_advantages"]]))


@vectors("mt_igpo_snapshot_discounted_advantage", "mt_igpo_snapshot_outcome_advantage")
def test_token_wise_returns_of_earlier_releases_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    reward, mask = array(inputs["token_level_rewards"]), array(inputs["response_mask"]) > 0
    earned = returns.reward_to_go(reward, mask, gamma=params["gamma"], reset_at_gap=True)
    agrees(file, earned * mask, expected["returns"])
    key = turn_table.labels(inputs["index"])
    if "discounted" in file:  # by the statistics of the first token's return
        first = earned[:, 0]
        unit = np.where(statistics.group_size(key) == 1, 1.0, statistics.group_std(first, key)) + params["epsilon"]
        found = (earned - statistics.group_mean(first, key)[:, None]) / (unit if params["norm_by_std"] else 1)[:, None]
    else:  # by the mean at the same place
        place = turn_table.labels(np.repeat(key, reward.shape[1]), np.tile(np.arange(reward.shape[1]), len(reward)))
        found = earned - statistics.group_mean(earned.ravel(), place).reshape(earned.shape)
    agrees(file, found * mask, expected["advantages"])


@vectors("mt_infopo_info_gain")
def test_gains_of_feedback_match(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    told, hidden = (array(inputs[f"next_action_logp_{name}_feedback"]) for name in ("with", "masked"))
    found = gains.feedback_gain(told, hidden)
    agrees(file, found, expected["info_gain"])
    agrees(file, found / inputs["acting_turn_len"], expected["per_token_reward"])


@vectors("mt_infopo_fusion")
def test_gated_gains_match_token_by_token(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    mask = array(inputs["response_mask"]) > 0
    lengths = mask.sum(1)
    key = turn_table.labels(inputs["index"])
    reward = array(inputs["token_level_rewards"]).sum(1)
    by = Recipe(baseline=RAW, scale=partial(scale.group_std, eps=params["epsilon"]))
    outcome = np.repeat(compared(reward, key, by), lengths)
    gain = array(inputs["token_level_intrinsic"])[mask]
    if params["normalize_intrinsic"]:
        gain = gains.standardised_where_told(gain, np.repeat(key, lengths), eps=params["epsilon"])
    agrees(file, outcome, array(expected["outcome_advantage"])[mask])
    agrees(file, gain, array(expected["intrinsic_advantage"])[mask])
    spread = np.where(statistics.group_size(key) == 1, 1.0, statistics.group_std(reward, key))
    gate = gains.gate(spread, temperature=params["gate_temperature"])
    agrees(file, gate, expected["gate"])
    held = gains.guard(outcome, gain)
    agrees(file, held, expected["magnitude_ratio"])
    beta = params["intrinsic_weight"] * np.exp(-params["decay_rate"] * params["epoch"])
    agrees(file, outcome + beta * np.repeat(gate, lengths) * held * gain, array(expected["advantages"])[mask])


@vectors("mt_stepsearch_f1_and_keys")
def test_word_overlap_of_answers_matches(file: str, case: dict[str, Any]) -> None:
    def rounded(prediction: str, golden: Sequence[str]) -> float:
        return round(retrieval.bag_f1(prediction, golden), 4)

    inputs = case["inputs"]
    golden = [inputs["golden"]] if isinstance(inputs["golden"], str) else inputs["golden"]
    agrees(file, rounded(inputs["prediction"], golden), case["expected"]["f1"])


# Trees.


def visits(paths: list[list[str]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every step of every path: its node, the node before it, and the path's number."""
    names = {"": -1}
    for path in paths:
        for name in path:
            names.setdefault(name, len(names) - 1)
    node = [names[name] for path in paths for name in path]
    parent = [names[before] for path in paths for before in ["", *path[:-1]]]
    return np.array(node), np.array(parent), np.repeat(np.arange(len(paths)), [len(path) for path in paths])


@vectors("mt_arpo_advantage_attribution")
def test_shared_steps_earn_the_mean_of_their_trajectories(file: str, case: dict[str, Any]) -> None:
    paths, expected = case["inputs"]["segments"], case["expected"]
    reward = array(case["inputs"]["reward"])
    by = Recipe(scale=partial(scale.group_std, eps=case["params"]["epsilon"]))
    own = compared(reward, np.zeros(len(reward), dtype=np.int64), by)
    agrees(file, own, expected["trajectory_advantage"])
    node, _, which = visits(paths)
    agrees(file, trees.shared(own[which], node), np.concatenate(expected["hard_segment_advantage"]))
    agrees(file, own[which], np.concatenate(expected["soft_segment_advantage"]))


@vectors("mt_arpo_entropy_branching")
def test_the_more_uncertain_a_reply_the_likelier_a_fork(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    score = trees.fork_score(
        inputs["u"], inputs["entropy_init"], inputs["entropy_now"], weight=params["entropy_weight"]
    )
    agrees(file, score, expected["score"])
    assert (score <= params["branch_probability"]) is expected["branch"]


@vectors("mt_portool_tree_advantage")
def test_forks_and_trajectories_are_compared_apart(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    before = {child: name for name, children in inputs["children"].items() for child in children}
    leaves = list(inputs["leaf_outcome"])
    paths = []
    for leaf in leaves:
        path = [leaf]
        while before[path[0]] != "root":
            path.insert(0, before[path[0]])
        paths.append(path)
    node, parent, which = visits(paths)
    names = [name for path in paths for name in path]
    outcome = array([inputs["leaf_outcome"][leaf] for leaf in leaves])
    left = np.concatenate([np.arange(len(path))[::-1] for path in paths])
    formats = array([inputs["format_reward"].get(name, 0.0) for name in names])
    worth = trees.node_rewards(outcome[which], node, left, formats, gamma=params["gamma"])
    agrees(file, worth, [expected["step_reward"][name] for name in names])
    fork = trees.among_siblings(worth, node, parent, eps=params["epsilon"])
    agrees(file, fork, [expected["fork_advantage"][name] for name in names])
    own = compared(outcome, np.zeros(len(leaves), dtype=np.int64), Recipe(scale=scale.group_std))
    agrees(file, own, [expected["trajectory_advantage"][leaf] for leaf in leaves])
    found = params["w_fork"] * fork + params["w_traj"] * own[which]
    agrees(file, found, np.concatenate([expected["step_advantage_by_leaf"][leaf] for leaf in leaves]))


@vectors("mt_tree_opo_advantage")
def test_staged_advantages_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    reward, parent = array(inputs["reward"]), np.array(inputs["parent"])
    for kind, name in (("mean", "expectation"), ("max", "optimistic"), ("min", "pessimistic")):
        values = trees.subtree_values(reward, trees.subtrees(parent), kind=kind)
        agrees(file, values, expected[f"V_{name}"])
        agrees(file, trees.staged(reward, values, alpha=params["alpha"]), expected["advantage_heuristic"][name])
    agrees(file, trees.ordered(reward, inputs["order_pairs"], margin=params["delta"]), expected["sae_soft"])


def test_an_order_that_cannot_be_kept_has_no_advantages() -> None:
    assert trees.ordered(np.array([1.0, 0.0]), [(0, 1), (1, 0)], margin=0.5) is None


def penalties(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    calls = [re.findall(r"<tool_response>(.*?)</tool_response>", text, re.DOTALL) for text in texts]
    errors = array([sum("error" in answer.lower() for answer in answers) for answers in calls])
    opened, closed = (np.array([text.count(tag) for text in texts]) for tag in ("<answer>", "</answer>"))
    replies = np.array([text.count("<|im_start|>assistant") for text in texts])
    share = subsets.error_share(errors, array([len(answers) for answers in calls]))
    return share, subsets.answer_penalty(opened, opened == closed, replies)


@vectors("mt_grpo_roc_downsample")
def test_the_cleanest_successes_are_kept(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    error, form = penalties(inputs["texts"])
    if "error_penalty" in expected:
        agrees(file, error, expected["error_penalty"])
        agrees(file, form, expected["format_penalty"])
        return
    assert params["min_zero"] == params["min_nonzero"]
    reward, key, count = array(inputs["reward"]), turn_table.labels(inputs["uid"]), params["down_sample_to_n"]
    kept = np.zeros(len(reward), dtype=bool)
    for number in range(key.max() + 1):
        rows = np.nonzero(key == number)[0]
        if len(rows) >= count:  # the release drops smaller groups
            penalty = (error + form)[rows]
            kept[rows] = subsets.resampled_on_correct(reward[rows], penalty, keep=count, least=params["min_zero"])
    assert kept.astype(int).tolist() == expected["keep"]


@pytest.mark.parametrize("won", range(9))
def test_as_many_are_kept_as_were_asked_for(won: int) -> None:
    reward = (np.arange(8) < won).astype(np.float64)
    for count in range(1, 10):
        for rng in (None, np.random.default_rng(0)):
            kept = subsets.resampled_on_correct(reward, np.linspace(0, 1, 8), keep=count, rng=rng)
            assert kept.sum() == min(count, 8)


@vectors("mt_dart_high_entropy_steps")
def test_the_most_uncertain_turns_of_a_task_are_kept(file: str, case: dict[str, Any]) -> None:
    entropy, key = array(case["inputs"]["step_entropy"]), turn_table.labels(case["inputs"]["task"])
    kept = subsets.highest(entropy, key, share=case["params"]["keep_fraction"])
    assert kept.astype(int).tolist() == case["expected"]["keep"]


def test_no_baseline_is_a_baseline() -> None:
    assert compared([1.0, 2.0], ["a", "a"], Recipe(baseline=baseline.none)).tolist() == [1.0, 2.0]
