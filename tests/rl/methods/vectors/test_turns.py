"""Turn-level, state-grouped and several-reward credit against numbers that the authors' own functions gave.

Where a release differs from our default, the case runs with what reproduces it: statistics over turns in place of
trajectories, a group of one that keeps its value (`singleton="raw"`), turns compared among those still playing, and
states or turns that are not told apart where ours are. Files are named in `vector_cases.COUNTS`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from rl.methods.estimators import (
    critic_targets,
    multi_reward,
    returns,
    states,
    statistics,
    subsets,
    turn_by_turn,
    turn_table,
)
from rl.methods.estimators.turn_table import Turns
from rl.methods.parts import baseline, scale
from rl.methods.parts import keep as keeps
from rl.methods.recipe import Recipe
from tests.support.batches import group, trajectory
from tests.support.vector_cases import agrees, array, vectors

RAW = partial(baseline.group_mean, singleton="raw")


def turns_of(trajectories: list[str], reward: Any, groups: list[str]) -> Turns:
    """One row per turn, trajectory by trajectory, each with one token."""
    _, first, which = np.unique(trajectories, return_index=True, return_inverse=True)
    place = np.empty_like(first)
    place[np.argsort(first)] = np.arange(len(first))
    which, first = place[which], np.sort(first)
    earned = array(reward)
    index = np.arange(len(which)) - first[which]
    whose = np.unique(groups, return_inverse=True)[1][first]
    return Turns(earned, which, index, np.ones_like(which), np.bincount(which, earned), whose)


def compared(values: Any, key: Any, by: Recipe) -> np.ndarray:
    """`values` among equal labels, one token each."""
    return turn_table.compared(array(values), turn_table.labels(np.asarray(key)), np.ones(len(key), dtype=np.int64), by)


KERNELGYM = {
    "mt_kernelgym_grpo": Recipe(baseline=RAW),
    "mt_kernelgym_trloo": Recipe(baseline=partial(baseline.leave_one_out, singleton="raw")),
    "mt_kernelgym_erloo": Recipe(baseline=partial(baseline.leave_one_out, singleton="raw")),
    "mt_kernelgym_erloo_norm": Recipe(
        baseline=partial(baseline.leave_one_out, singleton="raw"), scale=scale.leave_one_out_std
    ),
    "mt_kernelgym_turn_independent_grpo": Recipe(baseline=RAW),
    "mt_kernelgym_reinforce": Recipe(baseline=baseline.batch_mean, scale=scale.batch_std),
}


@vectors(*KERNELGYM)
def test_turn_wise_estimators_match_among_those_still_playing(file: str, case: dict[str, Any]) -> None:
    inputs, width = case["inputs"], case["params"]["max_turns"]
    gamma = 0.0 if "independent" in file else case["params"]["gamma"]
    reward, mask = array(inputs["token_level_rewards"]).sum(1), array(inputs["response_mask"])
    valid = array(inputs["loss_mask"]) > 0
    owner = np.arange(len(reward)) // width
    rows = turns_of([f"{i:04}" for i in owner], reward, inputs["uid"])
    values = turn_table.to_go(rows, reward, gamma=gamma)
    key = [np.unique(inputs["uid"], return_inverse=True)[1]]
    if file in ("mt_kernelgym_grpo", "mt_kernelgym_trloo"):
        key.append(np.array(inputs["turn_indices"]))
    found = np.zeros(len(values))
    label = turn_table.labels(*(part[valid] for part in key))
    found[valid] = turn_table.compared(values[valid], label, np.ones(valid.sum(), dtype=np.int64), KERNELGYM[file])
    agrees(file, (found[:, None] * mask)[valid], array(case["expected"]["advantages"])[valid])
    agrees(file, (values[:, None] * mask)[valid], array(case["expected"]["returns"])[valid])


@vectors("mt_turn_returns_and_shaping")
def test_returns_sums_and_improvements_of_turns_match(file: str, case: dict[str, Any]) -> None:
    params, expected = case["params"], case["expected"]
    reward = array(case["inputs"]["turn_rewards"])
    rows = turns_of([f"{i // params['max_turns']:04}" for i in range(len(reward))], reward, ["g"] * len(reward))
    agrees(file, turn_table.to_go(rows, reward, gamma=params["gamma"]), expected["returns"])
    agrees(file, turn_table.so_far(rows, reward), expected["cumulative"])
    last = 1 - params["gamma"] if params["unbiased"] else 1.0
    agrees(file, turn_table.improvement(rows, reward, last=last), expected["shaped"])


@vectors("mt_segment_discounted_return")
def test_returns_of_runs_of_tokens_match(file: str, case: dict[str, Any]) -> None:
    """A run pays what lies on its last token."""
    reward, mask = array(case["inputs"]["token_level_rewards"]), array(case["inputs"]["mask"]) > 0
    starts = mask & ~np.pad(mask, ((0, 0), (1, 0)))[:, :-1]
    ends = mask & ~np.pad(mask, ((0, 0), (0, 1)))[:, 1:]
    run = np.cumsum(starts.ravel()) - 1
    rows = turns_of([f"{i:04}" for i in np.nonzero(starts)[0]], reward[ends], ["g"] * ends.sum())
    found = turn_table.to_go(rows, reward[ends], gamma=case["params"]["gamma"])
    agrees(file, np.where(mask, found[run].reshape(mask.shape), 0.0), case["expected"]["returns"])


@vectors("mt_ragen_bilevel_gae")
def test_bilevel_advantages_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    reward, mask = array(inputs["token_level_rewards"]), array(inputs["loss_mask"]) > 0
    ends = (reward != 0) & mask  # what the release takes for the end of a turn
    turn = np.where(mask, np.cumsum(ends, axis=1) - ends, -1)
    options = {"gamma_turn": params["high_level_gamma"], "gamma": params["gamma"], "lam": params["lam"]}
    found, targets = returns.bilevel_advantages(reward, array(inputs["values"]), turn, **options)
    agrees(file, found[mask], array(expected["advantages_raw"])[mask])
    agrees(file, targets[mask], array(expected["returns"])[mask])
    agrees(file, statistics.whiten(found, mask)[mask], array(expected["advantages_whitened"])[mask])


@vectors("mt_ragen_reward_normalisation")
def test_reward_normalisations_match(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    score = array(inputs["score"]) + array(inputs["penalty"])
    key = {"state": inputs["group_id"], "inductive": inputs["tag"], "batch": [0] * len(score)}[params["grouping"]]
    by = {
        "identity": Recipe(baseline=baseline.none),
        "mean": Recipe(),
        "mean_std": Recipe(scale=scale.group_std),
        "asym_clip": Recipe(scale=partial(scale.bounded_std, low=-1.0, high=3.0, among="group", eps=1e-6)),
    }[params["method"]]
    agrees(file, compared(score, key, by), case["expected"]["normalised"])


@vectors("mt_starpos_filter")
def test_the_most_varied_groups_are_kept(file: str, case: dict[str, Any]) -> None:
    params, score = case["params"], array(case["inputs"]["scores"])
    key = np.arange(len(score)) // params["group_size"]
    kept = subsets.most_varied(score, key, ratio=params["ratio"], lowest=params["type"] == "std_rev")
    assert np.nonzero(kept)[0].tolist() == case["expected"]["kept_rows"]
    spread = statistics.group_std(score, key)
    agrees(file, spread.mean(), case["expected"]["in_group_std_mean"])
    agrees(file, spread[kept].mean(), case["expected"]["chosen_in_group_std_mean"])


@vectors("mt_seeupo_advantage")
def test_the_advantage_of_sequential_updates_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    mask = array(inputs["response_mask"])
    by = scale.bounded_std if params["special_norm"] else scale.group_std if params["norm_by_std"] else scale.none
    found = compared(array(inputs["token_level_rewards"]).sum(1), inputs["index"], Recipe(baseline=RAW, scale=by))
    agrees(file, found[:, None] * mask, case["expected"]["advantages"])


@vectors("mt_seeupo_ratio_update")
def test_the_ratio_carried_to_earlier_turns_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    if "mode" in params:
        kind = {"sequential": "forward", "reverse": "reverse"}[params["mode"]]
        assert turn_by_turn.order(inputs["max_turns"], kind=kind) == case["expected"]["order"]
        return
    previous = None if inputs["prev_ratio"] is None else array(inputs["prev_ratio"])
    found = turn_by_turn.carried(
        array(inputs["before_log_prob"]),
        array(inputs["after_log_prob"]),
        array(inputs["response_mask"]) > 0,
        previous,
        low=params["clip_low"],
        high=params["clip_high"],
    )
    agrees(file, found, case["expected"]["ratio"])


@vectors("mt_uis1_advantage")
def test_semi_online_returns_and_advantages_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, mask = case["inputs"], case["params"], array(case["inputs"]["response_mask"])
    rows = turns_of(inputs["traj"], inputs["step_reward"], inputs["group"])
    values = turn_table.to_go(rows, rows.reward, gamma=params["gamma"], matched=np.array(inputs["match"]))
    agrees(file, values, case["expected"]["step_returns"])
    by = scale.group_std if params["mode"] == "mean_std_norm" else scale.none
    key = turn_table.labels(inputs["group"], np.array(inputs["step_index"]))
    at_step = compared(values, key, Recipe(scale=by))
    whole = compared(array(inputs["token_level_rewards"]).sum(1), inputs["group"], Recipe(baseline=RAW, scale=by))
    found = params["episode_advantage_w"] * whole + params["step_advantage_w"] * at_step
    agrees(file, found[:, None] * mask, case["expected"]["advantages"])


@vectors("mt_pivotrl_filter")
def test_pivots_are_kept(file: str, case: dict[str, Any]) -> None:
    found = [
        keeps.pivotal(group(*(trajectory((1, reward)) for reward in outcomes)), below=case["params"]["tau"])
        for outcomes in case["inputs"]["rewards"]
    ]
    assert found == [bool(kept) for kept in case["expected"]["keep"]]


@vectors("mt_archer_targets")
def test_targets_and_losses_of_whole_replies_match(file: str, case: dict[str, Any]) -> None:
    inputs, expected = {key: array(value) for key, value in case["inputs"].items()}, case["expected"]
    for twin in "12":
        target = critic_targets.action_target(
            inputs["reward"], inputs["done"], inputs[f"target_v{twin}_next"], gamma=case["params"]["gamma"]
        )
        agrees(file, target, expected[f"q{twin}_target"])
    found = critic_targets.advantage((inputs["q1"], inputs["q2"]), (inputs["v1"], inputs["v2"]))
    agrees(file, found, expected["advantage"])
    agrees(file, critic_targets.actor_loss(found, inputs["action_logp"], inputs["action_mask"]), expected["actor_loss"])


@vectors("mt_hierarchical_role_grpo")
def test_roles_are_compared_in_the_group_or_in_the_episode(file: str, case: dict[str, Any]) -> None:
    inputs, scoped = case["inputs"], case["params"]["episode_scoped_roles"]
    episode = [e if role in scoped else "" for role, e in zip(inputs["role"], inputs["episode"], strict=True)]
    agrees(
        file,
        compared(inputs["reward"], turn_table.labels(inputs["role"], episode), Recipe()),
        case["expected"]["advantage"],
    )


@vectors("mt_atgrpo_groups")
def test_groups_of_turn_and_agent_and_their_filters_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    rollout, turn, agent = (np.array(inputs[f"{name}_idx"]) for name in ("rollout", "turn", "agent"))
    reward, kept = array(inputs["reward"]), np.ones(len(rollout), dtype=bool)
    if params["rollout_mode"] == "tree":
        key = turn_table.labels(rollout // params["sample_num"], turn, agent)
    else:  # only the last turn of each rollout
        key = rollout
        kept = turn == np.array([turn[rollout == i].max() for i in rollout])
    assert all(len(set(key[np.array(expected["group"]) == g])) == 1 for g in set(expected["group"]))
    assert len(set(key)) == len(set(expected["group"]))
    ratio = params["filter_ratio"]
    if ratio and params["filter_mode"] in ("std", "mean"):
        kept &= subsets.without_lowest(reward, key, ratio=ratio, by=params["filter_mode"])
    elif params["filter_mode"] == "uid":
        kept &= subsets.nearest_to_mean(reward, key, ratio=ratio)
    elif params["filter_mode"] == "dapo":
        kept &= statistics.group_std(reward, key) > 0
    assert np.nonzero(kept)[0].tolist() == expected["kept_rows"]
    found = compared(reward[kept], key[kept], Recipe(baseline=RAW, scale=scale.group_std))
    agrees(file, found, expected["kept_advantages"])


# The same state.


@vectors("mt_gigpo_advantage")
def test_anchored_advantages_match_over_turns_and_over_trajectories(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    mask = array(inputs["response_mask"])
    rows = turns_of(inputs["traj"], inputs["step_env_reward"], inputs["group"])
    values = turn_table.to_go(rows, rows.reward, gamma=params["gamma"])
    agrees(file, values, expected["step_returns"])
    place = turn_table.labels(inputs["group"], inputs["anchor_obs"])
    assert same_partition(place, expected["step_groups"])
    by = scale.group_std if params["mode"] == "mean_std_norm" else scale.none
    at_state = compared(values, place, Recipe(scale=by))
    whole = compared(array(inputs["token_level_rewards"]).sum(1), inputs["group"], Recipe(baseline=RAW, scale=by))
    agrees(file, at_state[:, None] * mask, expected["step_advantage"])
    agrees(file, whole[:, None] * mask, expected["episode_advantage_cross_steps"])
    agrees(file, (whole + params["step_advantage_w"] * at_state)[:, None] * mask, expected["advantages"])
    once = compared(rows.returns, rows.group, Recipe(baseline=RAW, scale=by))[rows.trajectory]
    agrees(file, once[:, None] * mask, expected["episode_advantage_per_trajectory"])


def same_partition(one: Any, other: Any) -> bool:
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))


@vectors("mt_gigpo_similarity_groups")
def test_similar_states_are_grouped_in_order(file: str, case: dict[str, Any]) -> None:
    if "pairs" in case["inputs"]:
        for (one, other), ratio in zip(case["inputs"]["pairs"], case["expected"]["ratio"], strict=True):
            for threshold, alike in ((ratio, True), (ratio + 1e-9, False)):
                found = states.similar([one, other], np.zeros(2, dtype=np.int64), threshold=threshold)
                assert (found[0] == found[1]) == (alike or one == other)
        return
    inputs = case["inputs"]
    key = turn_table.labels(inputs["group"])
    found = states.similar(inputs["anchor_obs"], key, threshold=case["params"]["similarity_thresh"])
    assert found.tolist() == case["expected"]["step_groups"]


@vectors("mt_roll_gigpo")
def test_the_other_release_merges_states_of_all_tasks(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    rows = turns_of(inputs["traj"], inputs["step_reward"], inputs["traj_group"])
    values = turn_table.to_go(rows, rows.reward, gamma=params["gamma"])
    by = Recipe(scale=scale.group_std if params["method"] == "mean_std" else scale.none)
    whole = compared(rows.returns[rows.trajectory], inputs["traj_group"], by)
    at_state = compared(values, inputs["state_hash"], by)
    agrees(file, values, expected["step_returns"])
    agrees(file, whole, expected["episode_norm"])
    agrees(file, at_state, expected["step_norm"])
    total = params["episode_reward_weight"] * whole + params["step_reward_weight"] * at_state
    bound = params["reward_clip"] or np.inf
    agrees(file, total.clip(-bound, bound), expected["combined"])


@vectors("mt_hgpo_advantage")
def test_hierarchical_advantages_match(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    rows = turns_of(inputs["traj"], inputs["step_return"], inputs["group"])
    standard = params["mode"] == "mean_std_norm"
    level = Recipe(scale=partial(scale.group_std, population=True) if standard else scale.none)
    whole = compared(
        array(inputs["token_level_rewards"]).sum(1),
        inputs["group"],
        Recipe(baseline=RAW, scale=scale.group_std if standard else scale.none),
    )
    found = states.blended(
        rows.reward,
        states.histories(
            turn_table.labels(inputs["group"], inputs["anchor_obs"]), rows.index, depth=params["history_length"]
        ),
        rows.tokens,
        partial(turn_table.compared, recipe=level),
        alpha=params["length_weight_alpha"],
        episode=whole if params["base_group"] else None,
    )
    agrees(file, found[:, None] * array(inputs["response_mask"]), case["expected"]["advantages"])


# Several rewards.


@vectors("mt_gdpo_advantage", "gdpo_advantage")
def test_decoupled_rewards_match_over_tokens_and_over_trajectories(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    names = ["reward_correct", "reward_format"] if "reward_correct" in inputs else ["reward1", "reward2"]
    given = [np.nan_to_num(np.array(inputs[name], dtype=np.float64)) for name in names]
    key, mask = inputs.get("group", inputs.get("group_id")), array(inputs["response_mask"])

    def scored(eps: float) -> list[np.ndarray]:
        return [compared(reward, key, Recipe(scale=partial(scale.group_std, eps=eps))) for reward in given]

    if verl := expected.get("gdpo_verl_token_advantages", expected.get("verl_advantages")):
        by_token = np.repeat(sum(scored(1e-6)), mask.sum(1).astype(int))
        agrees(file, statistics.whiten(by_token), array(verl)[mask > 0])
    for number in (1, 2):
        if f"verl_norm_reward{number}" in expected:
            agrees(file, scored(1e-6)[number - 1], expected[f"verl_norm_reward{number}"])
    weights = multi_reward.weights(
        names,
        "+".join(
            f"{name}:{weight}"
            for name, weight in zip(names, params.get("trl_weights") or params["trl_reward_weights"], strict=True)
        ),
    )
    total = weights @ np.array(scored(1e-4))
    if "trl_pre_batchnorm" in expected:
        agrees(file, total, expected["trl_pre_batchnorm"])
    spread = np.sqrt(statistics.variance(total))
    agrees(
        file,
        (total - total.mean()) / (spread + 1e-4),
        expected.get("gdpo_trl_advantages", expected.get("trl_advantages")),
    )


def test_a_subset_of_no_group_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ratio=0\.2 of 4 groups leaves none"):
        subsets.most_varied(np.arange(8.0), np.arange(8) // 2, ratio=0.2)
