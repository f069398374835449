"""Credit of turns: each recipe's own credit against numbers that the authors' own functions gave.

Where a release differs from the recipe, the case runs with the options that reproduce it: statistics over turns instead
of trajectories (`unit=turn`), a value that is alone and stays as it is (`singleton=raw`), and turns compared among those
still playing (`among=alive`). Returns and rewards, which credit compares, are read off as the credit of `turn_grpo`
without baseline and scale.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from envs.types import Stop
from rl.methods.estimators import states, turn_table
from rl.methods.parts.credit.state import group_by_state
from rl.records import Trajectory
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import Records, metrics, part, recipe_of, sequences, turn, turn_rows

RAW = "group_mean:singleton=raw"
RAW_OTHERS = "leave_one_out:singleton=raw"
UNCOMPARED = {"baseline": "none", "scale": "none"}
SCALES = {"mean_std_norm": "group_std", "mean_norm": "none", "mean_std": "group_std", "mean": "none"}


def returns_of(records: Records, **options: Any) -> np.ndarray:
    """The returns (R,) of turns, as `turn_grpo` would compare them."""
    credit = part("turn_returns", among="alive", **options)
    return records.on_turns(recipe_of("turn_grpo", credit=credit, **UNCOMPARED))


# The same turn, or all turns.

KERNELGYM: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {  # recipe, options of its credit, other slots
    "mt_kernelgym_grpo": ("turn_grpo", {"among": "alive"}, {"baseline": RAW, "scale": "none"}),
    "mt_kernelgym_trloo": ("trloo", {"among": "alive"}, {"baseline": RAW_OTHERS}),
    "mt_kernelgym_erloo": ("erloo", {"among": "pooled"}, {"baseline": RAW_OTHERS}),
    "mt_kernelgym_erloo_norm": ("erloo", {"among": "pooled"}, {"baseline": RAW_OTHERS, "scale": "leave_one_out_std"}),
    "mt_kernelgym_turn_independent_grpo": ("turn_grpo", {"among": "pooled"}, {"baseline": RAW, "scale": "none"}),
    "mt_kernelgym_reinforce": ("turn_grpo", {"among": "pooled"}, {"baseline": "batch_mean", "scale": "batch_std"}),
}


@vectors(*KERNELGYM)
def test_turn_wise_estimators_match_among_those_still_playing(file: str, case: dict[str, Any]) -> None:
    inputs, width, mask = case["inputs"], case["params"]["max_turns"], array(case["inputs"]["response_mask"])
    gamma = 0.0 if "independent" in file else case["params"]["gamma"]
    rows = np.nonzero(array(inputs["loss_mask"]) > 0)[0]  # the others are padding
    rewards = array(inputs["token_level_rewards"]).sum(1)
    records = turn_rows(rows // width, rewards[rows], np.array(inputs["uid"])[rows], mask[rows].sum(1))
    name, options, slots = KERNELGYM[file]
    recipe = recipe_of(name, credit=part("turn_returns", gamma=gamma, **options), **slots)
    sampled = mask[rows] > 0
    agrees(file, records.on_tokens(recipe), array(case["expected"]["advantages"])[rows][sampled])
    result = np.repeat(returns_of(records, gamma=gamma), sampled.sum(1))
    agrees(file, result, array(case["expected"]["returns"])[rows][sampled])


@vectors("mt_turn_returns_and_shaping")
def test_returns_and_improvements_of_turns_match(file: str, case: dict[str, Any]) -> None:
    params, expected = case["params"], case["expected"]
    rewards, width = array(case["inputs"]["turn_rewards"]), params["max_turns"]
    records = turn_rows(np.arange(len(rewards)) // width, rewards, [0] * len(rewards))
    gamma = params["gamma"]
    agrees(file, returns_of(records, gamma=gamma), expected["returns"])
    result = returns_of(records, gamma=gamma, improvement=True, unbiased=params["unbiased"])
    shaped = array(expected["shaped"]).reshape(-1, width)
    returns = [sum(gamma**j * row[k + j] for j in range(width - k)) for row in shaped for k in range(width)]
    agrees(file, result, returns)


@vectors("mt_segment_discounted_return")
def test_returns_of_runs_of_tokens_match(file: str, case: dict[str, Any]) -> None:
    """A run is a turn, whose reward lies on its last token."""
    rewards, mask = array(case["inputs"]["token_level_rewards"]), array(case["inputs"]["mask"]) > 0
    records = sequences(mask, [0] * len(mask), np.zeros(len(mask)))
    ends = mask & ~np.pad(mask, ((0, 0), (0, 1)))[:, 1:]
    for trajectory, row in zip(records.trajectories, [r[e] for r, e in zip(rewards, ends, strict=True)], strict=True):
        for own, reward in zip(trajectory.turns, row, strict=True):
            own.reward = float(reward)
    records = Records(records.trajectories, [0] * len(mask))
    credit = part("turn_returns", gamma=case["params"]["gamma"])
    result = records.on_tokens(recipe_of("turn_grpo", credit=credit, **UNCOMPARED))
    agrees(file, result, array(case["expected"]["returns"])[mask])


@vectors("mt_atgrpo_groups")
def test_groups_of_task_turn_and_agent_match(file: str, case: dict[str, Any]) -> None:
    """Rows whose group has no variance, which one filter drops, have advantage 0 here."""
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    rollout, order, agent = (np.array(inputs[f"{name}_idx"]) for name in ("rollout", "turn", "agent"))
    seats: dict[tuple[int, int], list[int]] = {}
    for row in np.argsort(order, kind="stable"):
        seats.setdefault((int(rollout[row]), int(agent[row])), []).append(int(row))
    trajectories = [
        Trajectory([turn(1, inputs["reward"][row]) for row in rows], Stop.TERMINATED, agent=str(seat))
        for (_, seat), rows in seats.items()
    ]
    records = Records(trajectories, [number // params["sample_num"] for number, _ in seats])
    result = np.zeros(len(rollout))
    result[np.concatenate([*seats.values()])] = records.on_turns(recipe_of("at_grpo", baseline=RAW))
    agrees(file, result[expected["kept_rows"]], expected["kept_advantages"])
    assert not np.delete(result, expected["kept_rows"]).any()


# Along an expert.


@vectors("mt_uis1_advantage")
def test_semi_online_returns_and_advantages_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, mask = case["inputs"], case["params"], array(case["inputs"]["response_mask"])
    assert (array(inputs["token_level_rewards"]).sum(1) == inputs["step_reward"]).all()
    records = turn_rows(
        inputs["traj"],
        inputs["step_reward"],
        inputs["group"],
        mask.sum(1),
        metrics=metrics(matched=inputs["match"]),
    )
    by_turn = part("matched_returns", gamma=params["gamma"], episode=0.0)
    agrees(file, records.on_turns(recipe_of("ui_s1", credit=by_turn, **UNCOMPARED)), case["expected"]["step_returns"])
    weights = {"episode": params["episode_advantage_w"], "turn": params["step_advantage_w"]}
    credit = part("matched_returns", gamma=params["gamma"], **weights, unit="turn", singleton="raw")
    result = records.on_tokens(recipe_of("ui_s1", credit=credit, scale=SCALES[params["mode"]]))
    agrees(file, result, array(case["expected"]["advantages"])[mask > 0])


# The same state.


@vectors("mt_gigpo_advantage")
def test_anchored_advantages_match_over_turns_and_over_trajectories(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    mask = array(inputs["response_mask"])
    records = turn_rows(
        inputs["traj"], inputs["step_env_reward"], inputs["group"], mask.sum(1), state=inputs["anchor_obs"]
    )
    agrees(file, returns_of(records, gamma=params["gamma"]), expected["step_returns"])
    table = turn_table.from_groups(records.groups)
    assert same_partition(group_by_state(records.groups, table), expected["step_groups"])

    def credit(omega: float, unit: str = "turn") -> np.ndarray:
        options = {"gamma": params["gamma"], "omega": omega, "unit": unit, "singleton": "raw"}
        return records.on_tokens(recipe_of("gigpo", credit=part("anchored", **options), scale=SCALES[params["mode"]]))

    weight, sampled = params["step_advantage_w"], mask > 0
    agrees(file, credit(weight), array(expected["advantages"])[sampled])
    agrees(file, credit(1.0) - credit(0.0), array(expected["step_advantage"])[sampled])
    agrees(file, credit(0.0), array(expected["episode_advantage_cross_steps"])[sampled])
    agrees(file, credit(0.0, "trajectory"), array(expected["episode_advantage_per_trajectory"])[sampled])


def same_partition(one: Any, other: Any) -> bool:
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))


@vectors("mt_roll_gigpo")
def test_the_other_release_of_gigpo_matches_within_a_task(file: str, case: dict[str, Any]) -> None:
    """It weighs the episode too, and bounds the sum; both are applied here to what credit gives."""
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    records = turn_rows(inputs["traj"], inputs["step_reward"], inputs["traj_group"], state=inputs["state_hash"])
    agrees(file, returns_of(records, gamma=params["gamma"]), expected["step_returns"])

    def credit(omega: float) -> np.ndarray:
        options = {"gamma": params["gamma"], "omega": omega, "unit": "turn"}
        return records.on_turns(recipe_of("gigpo", credit=part("anchored", **options), scale=SCALES[params["method"]]))

    episode, step = credit(0.0), credit(1.0) - credit(0.0)
    agrees(file, episode, expected["episode_norm"])
    agrees(file, step, expected["step_norm"])
    total = params["episode_reward_weight"] * episode + params["step_reward_weight"] * step
    bound = params["reward_clip"] or np.inf
    agrees(file, total.clip(-bound, bound), expected["combined"])


@vectors("mt_gigpo_similarity_groups")
def test_similar_states_are_grouped_in_order(file: str, case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    if "pairs" in inputs:
        for (one, other), ratio in zip(inputs["pairs"], case["expected"]["ratio"], strict=True):
            for threshold, alike in ((ratio, True), (ratio + 1e-9, False)):
                labels = states.cluster_similar([one, other], np.zeros(2, dtype=np.int64), threshold=threshold)
                assert (labels[0] == labels[1]) == (alike or one == other)
        return
    count = len(inputs["group"])
    records = turn_rows(range(count), [0.0] * count, inputs["group"], state=inputs["anchor_obs"])
    table = turn_table.from_groups(records.groups)
    labels = group_by_state(records.groups, table, case["params"]["similarity_thresh"])
    assert same_partition(labels[np.argsort(records.rows)], case["expected"]["step_groups"])


@vectors("mt_hgpo_advantage")
def test_hierarchical_advantages_match(file: str, case: dict[str, Any]) -> None:
    """Where the episode joins, the release divides it by the unbiased deviation and turns by the population's.

    One recipe has one scale, so those cases compose the estimators that the credit part is made of.
    """
    inputs, params, mask = case["inputs"], case["params"], array(case["inputs"]["response_mask"])
    standard = params["mode"] == "mean_std_norm"
    scale = "group_std:population=true" if standard else "none"
    records = turn_rows(inputs["traj"], inputs["step_return"], inputs["group"], mask.sum(1), state=inputs["anchor_obs"])
    expected = array(case["expected"]["advantages"])[mask > 0]
    depth, alpha = params["history_length"], params["length_weight_alpha"]
    recipe = recipe_of("hgpo", credit=part("hierarchical", gamma=0.0, depth=depth, alpha=alpha), scale=scale)
    if not params["base_group"]:
        agrees(file, records.on_tokens(recipe), expected)
        return
    table = turn_table.from_groups(records.groups)
    episode = recipe_of("grpo", baseline=RAW, scale="group_std" if standard else "none").normalization
    outcomes = array(inputs["token_level_rewards"]).sum(1)
    blend = states.blend_levels(
        table.rewards,
        states.history_groups(group_by_state(records.groups, table), table.index, depth=depth),
        table.num_tokens,
        partial(turn_table.compare, norm=recipe.normalization),
        alpha=alpha,
        episode=turn_table.compare(outcomes, table.turn_group, table.num_tokens, episode),
    )
    agrees(file, np.repeat(blend, table.num_tokens), expected)


# A critic over turns and tokens.


@vectors("mt_ragen_bilevel_gae")
def test_bilevel_advantages_match(file: str, case: dict[str, Any]) -> None:
    """A turn of the release ends at every reward that is not 0."""
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    rewards, values, mask = (array(inputs[name]) for name in ("token_level_rewards", "values", "loss_mask"))
    trajectories = []
    for row_rewards, row_values, row_mask in zip(rewards, values, mask > 0, strict=True):
        places = np.flatnonzero(row_mask)
        ends = np.flatnonzero(row_rewards[places]) + 1
        turns = []
        for own in np.split(places, ends[ends < len(places)]):
            turns.append(turn(len(own), row_rewards[own[-1]], gap=own[0] > 0 and not row_mask[own[0] - 1]))
            turns[-1].streams["value"] = tuple(row_values[own].tolist())
        trajectories.append(Trajectory(turns, Stop.TERMINATED))
    records = Records(trajectories, [0] * len(trajectories))
    options = {"gamma_turn": params["high_level_gamma"], "gamma": params["gamma"], "lam": params["lam"]}
    for whiten, name in ((False, "advantages_raw"), ("verl", "advantages_whitened")):
        recipe = recipe_of("bilevel_ppo", credit=part("bilevel_gae", **options, whiten=whiten))
        agrees(file, records.on_tokens(recipe), array(expected[name])[mask > 0])
    agrees(file, records.stream("returns"), array(expected["returns"])[mask > 0])
