"""Numbers that other trainers' own functions gave, reproduced by the parts at each file's stated tolerance.

Where a trainer ships another rule than our default, the case runs with the option that reproduces it:
- `singleton="raw"`: a group of one keeps its reward (GRPO, RLOO's loop, OPO, REINFORCE++-baseline);
- `reset_at_gap=True`: no reward crosses an observation (REINFORCE++);
- `per_trajectory=False`: a constant divisor that ignores the number of trajectories (Dr. GRPO);
- `clamp=False`: a length penalty without bound (DAPO).
What a file expects beyond values, losses and gradients (clip fractions and the like) is not the parts' to give.
Losses are in `test_loss_vectors.py`, credit of several turns in `test_turn_vectors.py` and `test_gain_vectors.py`. Cases that no part covers are named in `vector_cases.LEFT_OUT`, with the reason;
`test_no_case_is_skipped_silently` counts both kinds.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rl.methods.estimators import returns, statistics
from rl.methods.parts import baseline, scale, shape
from tests.support.batches import group, trajectory
from tests.support.vector_cases import COUNTS, FOLDER, LEFT_OUT, agrees, array, checked, name_of, read, vectors


def test_no_case_is_skipped_silently() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} >= COUNTS.keys() >= LEFT_OUT.keys()
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*vectors.py"))
    for file, (run, left) in COUNTS.items():
        assert not run or f'"{file}"' in text
        names = [name_of(case) for case in read(file)["cases"]]
        assert LEFT_OUT.get(file, {}).keys() <= set(names)
        assert (len(checked(file)), len(names) - len(checked(file))) == (run, left), file


ESTIMATORS = {
    "mt_grpo_outcome_advantage": "grpo",
    "mt_grpo_vectorized_outcome_advantage": "grpo",
    "mt_rloo_outcome_advantage": "rloo",
    "mt_opo_outcome_advantage": "opo",
    "mt_reinforce_plus_plus_baseline_advantage": "reinforce_pp_baseline",
}
BASELINES = {
    "grpo": baseline.group_mean,
    "rloo": baseline.leave_one_out,
    "opo": baseline.length_weighted_mean,
    "reinforce_pp_baseline": baseline.group_mean,
}


@vectors(*ESTIMATORS, "verl_group_advantages")
def test_group_advantages_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    mask = array(inputs["response_mask"])
    rewards = array(inputs["rewards"] if "rewards" in inputs else array(inputs["token_level_rewards"]).sum(-1))
    _, members = np.unique(inputs.get("group_id", inputs.get("index")), return_inverse=True)
    estimator = ESTIMATORS.get(file) or params["estimator"]
    by_std = estimator == "grpo" and params.get("norm_adv_by_std", params.get("norm_adv_by_std_in_grpo", True))

    def advantages(singleton: str) -> np.ndarray:
        base = BASELINES[estimator](rewards, members, mask.sum(-1).astype(np.int64), singleton=singleton)
        return (scale.group_std if by_std else scale.none)(rewards - base, rewards, members)[:, None] * mask

    shipped = advantages("raw")
    if estimator == "reinforce_pp_baseline":
        shipped = statistics.whiten(shipped, mask > 0) * mask
    agrees(file, shipped, expected.get("advantages", expected.get("advantages_loop")))
    if "advantages_vectorized" in expected:
        agrees(file, advantages("zero"), expected["advantages_vectorized"])


@vectors("mt_unified_group_advantage")
def test_the_unified_estimator_is_a_baseline_and_a_scale(file: str, case: dict[str, Any]) -> None:
    params = case["params"]
    values = array(case["inputs"]["value"])
    _, members = np.unique(case["inputs"]["key"], return_inverse=True)
    lengths = np.ones(len(values), dtype=np.int64)
    if params["baseline"] == "none":
        base = baseline.none(values, members, lengths)
    else:
        part = {"mean": baseline.group_mean, "loo": baseline.leave_one_out}[params["baseline"]]
        base = part(values, members, lengths, singleton=params["singleton"])
    batch = partial(scale.batch_std, singleton="raw" if params["singleton"] == "raw" else "scaled")
    scaled = {"none": scale.none, "group": scale.group_std, "batch": batch}[params["scale"]]
    agrees(file, scaled(values - base, values, members), case["expected"]["advantage"])


@vectors("mt_reinforce_plus_plus_advantage")
def test_returns_to_go_match_with_the_shipped_reset(file: str, case: dict[str, Any]) -> None:
    rewards, mask = array(case["inputs"]["token_level_rewards"]), array(case["inputs"]["response_mask"]) > 0
    earned = returns.reward_to_go(rewards, mask, gamma=case["params"]["gamma"], reset_at_gap=True)
    agrees(file, earned, case["expected"]["returns"])
    agrees(file, statistics.whiten(earned, mask) * mask, case["expected"]["advantages"])


@vectors("mt_gae_advantage_return")
def test_generalised_advantages_jump_over_observations(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    mask = array(inputs["response_mask"]) > 0
    found = returns.generalised_advantages(
        array(inputs["token_level_rewards"]), array(inputs["values"]), mask, **case["params"]
    )
    agrees(file, found[0] * mask, array(expected["advantages_raw"]) * mask)
    agrees(file, found[1] * mask, array(expected["returns"]) * mask)
    agrees(file, statistics.whiten(found[0], mask) * mask, array(expected["advantages_whitened"]) * mask)


@vectors("mt_masked_statistics")
def test_masked_statistics_match(file: str, case: dict[str, Any]) -> None:
    values, mask, expected = array(case["inputs"]["values"]), array(case["inputs"]["mask"]) > 0, case["expected"]
    agrees(file, statistics.mean(values, mask), expected["mean"])
    agrees(file, statistics.variance(values, mask), expected["var"])
    agrees(file, statistics.whiten(values, mask), expected["whitened"])
    agrees(file, statistics.whiten(values, mask) + statistics.mean(values, mask), expected["whitened_keep_mean"])


@vectors("mt_dapo_overlong_penalty")
def test_the_length_penalty_matches_without_its_bound(file: str, case: dict[str, Any]) -> None:
    params, lengths = case["params"], case["inputs"]["response_lengths"]
    played = group(*(trajectory((length, 0.0)) for length in lengths), rewards=case["inputs"]["rewards"])
    shaped = shape.soft_overlong(
        played,
        budget=params["max_response_length"],
        cache=params["overlong_buffer"],
        factor=params["penalty_factor"],
        clamp=False,
    )
    agrees(file, shaped, case["expected"]["rewards"])
