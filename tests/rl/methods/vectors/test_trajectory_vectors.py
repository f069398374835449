"""Credit of whole trajectories and of tokens: each recipe's own credit against numbers of other trainers' functions.

Where a trainer ships another rule than the recipe, the case runs with the options that reproduce it:
- `singleton=raw`: a group of one keeps its reward (GRPO, RLOO's loop, OPO, REINFORCE++-baseline);
- `reset_at_gap=true`: no reward crosses an observation (REINFORCE++);
- `whiten=verl`: equal numbers are standardised as verl does;
- `clamp=false`: a length penalty without bound (DAPO).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from envs.types import Stop
from rl.methods.estimators import statistics, subsets
from rl.records import Trajectory
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import Records, metrics, part, recipe_of, sequences, token_sequences, turn, turn_rows

GROUP_ADVANTAGES = {
    "mt_grpo_outcome_advantage": "grpo",
    "mt_grpo_vectorized_outcome_advantage": "grpo",
    "mt_rloo_outcome_advantage": "rloo",
    "mt_opo_outcome_advantage": "opo",
    "mt_reinforce_plus_plus_baseline_advantage": "reinforce_pp_baseline",
}
RAW = {
    "grpo": {"baseline": "group_mean:singleton=raw"},
    "dr_grpo": {"baseline": "group_mean:singleton=raw"},
    "rloo": {"baseline": "leave_one_out:singleton=raw"},
    "opo": {"baseline": "length_weighted_mean:singleton=raw"},
    "reinforce_pp_baseline": {"baseline": "group_mean:singleton=raw", "credit": "outcome:whiten=verl"},
}


@vectors(*GROUP_ADVANTAGES, "verl_group_advantages")
def test_advantages_in_the_group_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    mask = array(inputs["response_mask"])
    returns = array(inputs["rewards"] if "rewards" in inputs else array(inputs["token_level_rewards"]).sum(-1))
    records = sequences(mask, inputs.get("group_id", inputs.get("index")), returns)
    name = GROUP_ADVANTAGES.get(file) or params["estimator"]
    if name == "grpo" and not params.get("norm_adv_by_std", params.get("norm_adv_by_std_in_grpo", True)):
        name = "dr_grpo"
    agrees(file, records.on_tokens(recipe_of(name, **RAW[name])), array(_advantages(expected))[mask > 0])
    if "advantages_vectorized" in expected:
        agrees(file, records.on_tokens(recipe_of(name)), array(expected["advantages_vectorized"])[mask > 0])


def _advantages(expected: dict[str, Any]) -> Any:
    return expected.get("advantages", expected.get("advantages_loop"))


@vectors("mt_unified_group_advantage")
def test_every_baseline_goes_with_every_scale(file: str, case: dict[str, Any]) -> None:
    params, value = case["params"], array(case["inputs"]["value"])
    singleton = params["singleton"]
    base = {"none": "none", "mean": f"group_mean:singleton={singleton}", "loo": f"leave_one_out:singleton={singleton}"}
    batch = "batch_std:singleton=raw" if singleton == "raw" else "batch_std"
    scale = {"none": "none", "group": "group_std", "batch": batch}
    recipe = recipe_of("grpo", baseline=base[params["baseline"]], scale=scale[params["scale"]])
    records = sequences(np.ones((len(value), 1)), case["inputs"]["key"], value)
    agrees(file, records.on_trajectories(recipe), case["expected"]["advantage"])


@vectors("mt_seeupo_advantage")
def test_the_advantage_of_sequential_updates_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params, mask = case["inputs"], case["params"], array(case["inputs"]["response_mask"])
    scale = "bounded_std" if params["special_norm"] else "group_std" if params["norm_by_std"] else "none"
    recipe = recipe_of("seeupo", baseline="group_mean:singleton=raw", scale=scale)
    records = sequences(mask, inputs["index"], array(inputs["token_level_rewards"]).sum(1))
    agrees(file, records.on_tokens(recipe), array(case["expected"]["advantages"])[mask > 0])


@vectors("mt_ragen_reward_normalisation")
def test_reward_normalisations_match(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    score = array(inputs["score"]) + array(inputs["penalty"])
    label = {"state": inputs["group_id"], "inductive": inputs["tag"], "batch": [0] * len(score)}[params["grouping"]]
    words = {
        "identity": {"baseline": "none", "scale": "none"},
        "mean": {"scale": "none"},
        "mean_std": {},
        "asym_clip": {"scale": "bounded_std:low=-1,high=3,among=group,eps=1e-6"},
    }[params["method"]]
    recipe = recipe_of("starpo_s", credit="outcome", **words)
    records = sequences(np.ones((len(score), 1)), label, score)
    agrees(file, records.on_trajectories(recipe), case["expected"]["normalised"])


@vectors("mt_starpos_filter")
def test_the_most_varied_groups_are_kept(file: str, case: dict[str, Any]) -> None:
    """All returns are 1 after shaping and no baseline is taken, so that credit is 1 exactly where a group is kept."""
    params, score = case["params"], array(case["inputs"]["scores"])
    label = np.arange(len(score)) // params["group_size"]
    credit = part("most_varied", ratio=params["ratio"], lowest=params["type"] == "std_rev")
    recipe = recipe_of("starpo_s", credit=credit, baseline="none", scale="none")
    trajectories = [Trajectory([turn(1, reward)], Stop.TERMINATED) for reward in score]
    result = Records(trajectories, label.tolist(), np.ones(len(score))).on_trajectories(recipe)
    assert np.nonzero(result)[0].tolist() == case["expected"]["kept_rows"]
    spread = statistics.group_std(score, label)
    agrees(file, spread.mean(), case["expected"]["in_group_std_mean"])
    agrees(file, spread[result > 0].mean(), case["expected"]["chosen_in_group_std_mean"])


@vectors("mt_grpo_roc_downsample")
def test_the_cleanest_successes_are_kept(file: str, case: dict[str, Any]) -> None:
    """Failures are paid -1 and no baseline is taken, so that credit is not 0 exactly where a member is kept."""
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    errors = _error_penalties(inputs["texts"])
    if "error_penalty" in expected:
        agrees(file, errors, expected["error_penalty"])
        return
    assert params["min_zero"] == params["min_nonzero"]
    penalty, uid = errors + _form_penalties(inputs["texts"]), np.array(inputs["uid"])
    reward = np.where(array(inputs["reward"]) > 0, inputs["reward"], -1.0)
    is_kept = np.zeros(len(reward), dtype=int)
    for label in sorted(set(uid)):
        rows = np.nonzero(uid == label)[0]
        if len(rows) < params["down_sample_to_n"]:  # the release drops smaller groups
            continue
        share = params["down_sample_to_n"] / len(rows)
        credit = part("resampled_on_correct", keep=share, least=params["min_zero"], penalty="penalty")
        recipe = recipe_of("grpo_roc", credit=credit, baseline="none", scale="none")
        records = turn_rows(rows, reward[rows], uid[rows], metrics=metrics(penalty=penalty[rows]))
        is_kept[rows] = records.on_trajectories(recipe) != 0
    assert is_kept.tolist() == expected["keep"]


def _error_penalties(texts: list[str]) -> np.ndarray:
    calls = [re.findall(r"<tool_response>(.*?)</tool_response>", text, re.DOTALL) for text in texts]
    errors = array([sum("error" in answer.lower() for answer in answers) for answers in calls])
    return subsets.error_share(errors, array([len(answers) for answers in calls]))


def _form_penalties(texts: list[str]) -> np.ndarray:
    """The release's second penalty, which reads a text: answers beyond one per turn; 1 where tags do not match."""
    opened, closed = (array([text.count(tag) for text in texts]) for tag in ("<answer>", "</answer>"))
    turns = array([text.count("<|im_start|>assistant") for text in texts])
    spare = np.minimum((opened - 1) / np.maximum(turns, 1), 1.0)
    return np.where((opened > 0) & (opened == closed) & (turns > 0), spare, 1.0)


@pytest.mark.parametrize("won", range(9))
def test_as_many_are_kept_as_were_asked_for(won: int) -> None:
    reward = (np.arange(8) < won).astype(np.float64)
    for count in range(1, 10):
        assert subsets.resample_on_correct(reward, np.linspace(0, 1, 8), keep=count).sum() == min(count, 8)


def test_a_subset_of_no_group_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ratio=0\.2 of 4 groups selects none"):
        subsets.most_varied(np.arange(8.0), np.arange(8) // 2, ratio=0.2)


@vectors("mt_dapo_overlong_penalty")
def test_the_length_penalty_matches_without_its_bound(file: str, case: dict[str, Any]) -> None:
    params, lengths = case["params"], case["inputs"]["response_lengths"]
    budget, cache = params["max_response_length"], params["overlong_buffer"]
    shape = part("soft_overlong", budget=budget, cache=cache, factor=params["penalty_factor"], clamp=False)
    trajectories = [Trajectory([turn(length)], Stop.TERMINATED) for length in lengths]
    (group,) = Records(trajectories, [0] * len(trajectories), case["inputs"]["rewards"]).groups
    (soft_overlong,) = recipe_of("dapo", shape=shape).shape
    agrees(file, soft_overlong(group), case["expected"]["rewards"])


@vectors("mt_pivotrl_filter")
def test_pivots_are_kept(file: str, case: dict[str, Any]) -> None:
    recipe = recipe_of("pivotrl", keep=part("pivotal", below=case["params"]["tau"]))
    result = [
        recipe.keep(turn_rows(range(len(rewards)), rewards, [0] * len(rewards)).groups[0])
        for rewards in case["inputs"]["rewards"]
    ]
    assert result == [bool(kept) for kept in case["expected"]["keep"]]


# Several rewards and several agents.


@vectors("mt_gdpo_advantage", "gdpo_advantage")
def test_decoupled_rewards_match_over_tokens_and_over_trajectories(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    names = ["reward_correct", "reward_format"] if "reward_correct" in inputs else ["reward1", "reward2"]
    table = np.array([np.nan_to_num(np.array(inputs[name], dtype=np.float64)) for name in names])  # (2, B)
    labels, mask = inputs.get("group", inputs.get("group_id")), array(inputs["response_mask"])
    rewards = [dict(zip(names, column.tolist(), strict=True)) for column in table.T]
    records = turn_rows(range(len(labels)), table.sum(0), labels, mask.sum(1), rewards=rewards)
    if verl := expected.get("gdpo_verl_token_advantages", expected.get("verl_advantages")):
        recipe = recipe_of("gdpo", credit="decoupled:per_token=true")
        agrees(file, records.on_tokens(recipe), array(verl)[mask > 0])
    for name, rewards_of in zip(names, table, strict=True):
        if f"verl_norm_{name}" in expected:
            alone = sequences(mask, labels, rewards_of)
            agrees(file, alone.on_trajectories(recipe_of("grpo")), expected[f"verl_norm_{name}"])
    if total := expected.get("grpo_sum_token_advantages"):
        agrees(file, sequences(mask, labels, table.sum(0)).on_tokens(recipe_of("grpo")), array(total)[mask > 0])
    weights = params.get("trl_weights") or params["trl_reward_weights"]
    text = "+".join(f"{name}:{weight}" for name, weight in zip(names, weights, strict=True))
    trl = recipe_of("gdpo", credit=part("decoupled", weights=text, eps=1e-4), scale="group_std:eps=1e-4")
    advantages = expected.get("gdpo_trl_advantages", expected.get("trl_advantages"))
    agrees(file, records.on_trajectories(trl), advantages)
    if before := expected.get("trl_pre_batchnorm", expected.get("gdpo_trl_before_batch_norm")):
        grpo = recipe_of("grpo", scale="group_std:eps=1e-4")
        apart = [sequences(mask, labels, rewards_of).on_trajectories(grpo) for rewards_of in table]
        agrees(file, np.array(weights) @ np.array(apart), before)


@vectors("mt_hierarchical_role_grpo")
def test_roles_are_compared_in_the_group_or_in_the_episode(file: str, case: dict[str, Any]) -> None:
    inputs, scoped = case["inputs"], case["params"]["episode_scoped_roles"]
    _, episodes = np.unique(inputs["episode"], return_inverse=True)
    trajectories = [
        Trajectory([turn(1, reward)], Stop.TERMINATED, agent=role, member=int(episode))
        for role, reward, episode in zip(inputs["role"], inputs["reward"], episodes, strict=True)
    ]
    recipe = recipe_of("grpo", credit=part("by_role", per_episode="+".join(scoped)), scale="none")
    result = Records(trajectories, [0] * len(trajectories)).on_trajectories(recipe)
    agrees(file, result, case["expected"]["advantage"])


# Token by token.


@vectors("mt_reinforce_plus_plus_advantage")
def test_returns_to_go_match_with_the_shipped_reset(file: str, case: dict[str, Any]) -> None:
    rewards, mask = array(case["inputs"]["token_level_rewards"]), array(case["inputs"]["response_mask"])
    options = {"gamma": case["params"]["gamma"], "reset_at_gap": True}
    records = token_sequences(rewards, mask)
    for whiten, name in ((False, "returns"), ("verl", "advantages")):
        recipe = recipe_of("reinforce_pp", credit=part("reward_to_go", **options, whiten=whiten))
        agrees(file, records.on_tokens(recipe), array(case["expected"][name])[mask > 0])


@vectors("mt_igpo_snapshot_discounted_advantage", "mt_igpo_snapshot_outcome_advantage")
def test_token_wise_returns_of_earlier_releases_match(file: str, case: dict[str, Any]) -> None:
    """Their returns only: they compare them token by token, where the recipe `igpo` compares turns."""
    rewards, mask = array(case["inputs"]["token_level_rewards"]), array(case["inputs"]["response_mask"])
    credit = part("reward_to_go", gamma=case["params"]["gamma"], reset_at_gap=True, whiten=False)
    result = token_sequences(rewards, mask).on_tokens(recipe_of("reinforce_pp", credit=credit))
    agrees(file, result, array(case["expected"]["returns"])[mask > 0])


@vectors("mt_gae_advantage_return")
def test_generalised_advantages_jump_over_observations(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    mask = array(inputs["response_mask"])
    records = token_sequences(array(inputs["token_level_rewards"]), mask, array(inputs["values"]))
    for whiten, name in ((False, "advantages_raw"), ("verl", "advantages_whitened")):
        recipe = recipe_of("ppo", credit=part("gae", **case["params"], whiten=whiten))
        agrees(file, records.on_tokens(recipe), array(expected[name])[mask > 0])
    agrees(file, records.stream("returns"), array(expected["returns"])[mask > 0])
