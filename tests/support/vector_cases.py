"""The cases in `tests/vectors`: which are checked, which are left out and why, and the tolerance of each file."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from tests.support.paths import VECTORS

FOLDER = VECTORS
OTHER = "no part of this kind"
ROW_FILTER = "drops rows or groups by a filter that no part offers"

LEFT_OUT: dict[str, dict[str, str]] = {
    "adhint": dict.fromkeys(
        ("consistency weight", "negative advantage masks the hint"), "weighs tokens of a hint, which here are context"
    ),
    "ettrl_ear": {"tree rollout count": "counts forks within a reply, where forks here are of whole replies"},
    "gdro_online_bins": {
        "uniform bins + hysteresis: the bin never moves DOWN (boundary bug)": "a mistake of the release, corrected here",
    },
    "mt_arpo_entropy_branching": dict.fromkeys(
        ("entropy0", "entropy1", "entropy2", "entropy4"), "reads log-probabilities of tokens that were not sampled"
    ),
    "mt_atgrpo_groups": {
        "std_filter_half": ROW_FILTER,
        "uid_filter_quarter": ROW_FILTER,
        "no_tree_keeps_last_turn_only": "keeps the last turn of each rollout, compared with no other",
    },
    "mt_skyrl_loss_reduction": {
        "case0|token_mean_legacy": "depends on the size of the micro-batch",
        "case1|token_mean_legacy": "depends on the size of the micro-batch",
    },
    "prime_rl_loss": dict.fromkeys(
        ("ref_kl mild", "ref_kl wide", "ref_kl multi-turn mask"), "imitates a reference policy, which no recipe does"
    ),
    "d3s_selection": {
        "linear schedule from aggressive to full": "shares that grow over a run, which here are constant",
    },
    "stepwiser_labels": {"judge reward": "the reward of a judge, which no recipe trains"},
    "vcpo_opob": dict.fromkeys(("weighted median", "winsorised 5-95"), "a robust mean, which no part offers"),
    "slime_losses": dict.fromkeys(("gspo kl mild", "gspo kl wide"), "a metric, which no loss reads"),
    "verl_group_advantages": {"alpha = B / #nonzero": OTHER},
}
# Files of the same collection that are not in `tests/vectors`, because nothing here could be checked against them.
LEFT_OUT_FILES: dict[str, str] = {
    "brorl_mass_balance": "a diagnostic of an idealised softmax, not a loss",
}
# What checked cases expect beyond what is compared.
UNCHECKED: dict[str, dict[str, str]] = {
    "echo_branch_prune": {
        "prune": "the penalty of a cut, which the release computes and nothing reads",
        "neg_mean_logp_topk": "stands behind the means over windows",
    },
    "fapo_genrm_reward": dict.fromkeys(("pred", "acc"), "stands behind the score"),
    "ettrl_ear": {"adv_clip": "bounds advantages, which no part does"},
    "prefix_and_replay": {"kept": "trims to the newest in whole batches, where stored groups are trimmed one by one"},
    "ttrl_majority": {
        name: "a metric that needs the answer"
        for name in ("reward_accuracy", "ground_truth_ratio", "majority_voting_reward", "pass@4")
    },
    "mt_grpo_roc_downsample": {"format_penalty": "counts answer tags in a text, which is for an environment to report"},
    "mt_igpo_snapshot_discounted_advantage": {"advantages": "compares token by token, where `igpo` compares turns"},
    "mt_igpo_snapshot_outcome_advantage": {"advantages": "compares token by token, where `igpo` compares turns"},
    "mt_igpo_turn_advantage": {"token_advantages": "merges turns of gain 0 into the next one"},
    "mt_stepsearch_step_reward": {
        "info_gain": "compares documents by their words, which is for an environment to report",
        "redundancy": "counts documents that were returned before, which is for an environment to report",
    },
    "mt_turn_returns_and_shaping": {"cumulative": "a running sum, which no method here reads"},
}
# File: cases checked, cases left out.
COUNTS = {
    "ettrl_ear": (3, 3),
    "digiq_extraction": (6, 0),
    "ttrl_majority": (6, 0),
    "adhint": (4, 2),
    "swarm_sharing": (4, 0),
    "otr_loss": (4, 0),
    "prefix_and_replay": (7, 0),
    "gdro_sqrt_rule": (4, 0),
    "gdro_rollout_arms": (5, 0),
    "gdro_prompt_weights": (6, 0),
    "gdro_online_bins": (3, 1),
    "dars_schedule": (5, 0),
    "ace_error_penalty": (6, 0),
    "areal_decoupled_ppo": (8, 0),
    "areal_m2po_mask": (4, 0),
    "areal_prox_and_staleness": (7, 0),
    "bapo_adaptive_clip": (6, 0),
    "d3s_selection": (6, 3),
    "echo_branch_prune": (5, 0),
    "echo_hybrid_shaping": (5, 0),
    "fapo_advantage": (5, 0),
    "fapo_genrm_reward": (8, 0),
    "fapo_policy_reward": (8, 0),
    "gdpo_advantage": (6, 0),
    "m2po_authors_clip": (4, 0),
    "mc_grpo_advantage": (7, 0),
    "mc_grpo_minabs_ablation": (6, 0),
    "minpro": (4, 0),
    "mssr_mvsr": (10, 0),
    "mt_agg_loss": (12, 0),
    "mt_archer_targets": (4, 0),
    "mt_arpo_advantage_attribution": (4, 0),
    "mt_arpo_entropy_branching": (5, 4),
    "mt_atgrpo_groups": (3, 3),
    "mt_cispo_policy_loss": (4, 0),
    "mt_dapo_overlong_penalty": (4, 0),
    "mt_dart_high_entropy_steps": (4, 0),
    "mt_dart_tis_ppo_loss": (4, 0),
    "mt_gae_advantage_return": (5, 0),
    "mt_gdpo_advantage": (5, 0),
    "mt_gigpo_advantage": (27, 0),
    "mt_gigpo_similarity_groups": (5, 0),
    "mt_grpo_outcome_advantage": (12, 0),
    "mt_grpo_roc_downsample": (6, 0),
    "mt_grpo_vectorized_outcome_advantage": (12, 0),
    "mt_gspo_policy_loss": (4, 0),
    "mt_hgpo_advantage": (27, 0),
    "mt_hierarchical_role_grpo": (4, 0),
    "mt_icepop_and_tis_token": (4, 0),
    "mt_igpo_info_gain": (4, 0),
    "mt_igpo_snapshot_discounted_advantage": (8, 0),
    "mt_igpo_snapshot_outcome_advantage": (4, 0),
    "mt_igpo_outcome_f1": (6, 0),
    "mt_igpo_turn_advantage": (15, 0),
    "mt_infopo_fusion": (6, 0),
    "mt_infopo_info_gain": (4, 0),
    "mt_kernelgym_erloo": (5, 0),
    "mt_kernelgym_erloo_norm": (5, 0),
    "mt_kernelgym_grpo": (5, 0),
    "mt_kernelgym_reinforce": (5, 0),
    "mt_kernelgym_trloo": (5, 0),
    "mt_kernelgym_turn_independent_grpo": (5, 0),
    "mt_kl_penalty": (8, 0),
    "mt_masked_statistics": (5, 0),
    "mt_opo_outcome_advantage": (6, 0),
    "mt_pivotrl_filter": (4, 0),
    "mt_portool_tree_advantage": (4, 0),
    "mt_ppo_clip_policy_loss": (6, 0),
    "mt_ppo_value_loss": (5, 0),
    "mt_ragen_bilevel_gae": (5, 0),
    "mt_ragen_reward_normalisation": (5, 0),
    "mt_reinforce_plus_plus_advantage": (12, 0),
    "mt_reinforce_plus_plus_baseline_advantage": (6, 0),
    "mt_rloo_outcome_advantage": (6, 0),
    "mt_roll_gigpo": (4, 0),
    "mt_rollout_rejection_mask": (8, 0),
    "mt_seeupo_advantage": (4, 0),
    "mt_seeupo_ratio_update": (5, 0),
    "mt_segment_discounted_return": (4, 0),
    "mt_segment_masked_mean": (4, 0),
    "mt_skyrl_loss_reduction": (10, 2),
    "mt_starpos_filter": (4, 0),
    "mt_stepsearch_f1_and_keys": (8, 0),
    "mt_stepsearch_step_reward": (5, 0),
    "mt_tir_optimal_token_baseline": (4, 0),
    "mt_tis_weights": (5, 0),
    "mt_tree_opo_advantage": (5, 0),
    "mt_turn_returns_and_shaping": (4, 0),
    "mt_uis1_advantage": (4, 0),
    "mt_unified_group_advantage": (5, 0),
    "prime_rl_loss": (6, 3),
    "props_quota": (5, 0),
    "ps_grpo_reward": (4, 0),
    "recycle_first_error": (4, 0),
    "remix": (5, 0),
    "roll_offpolicy_losses": (12, 0),
    "roll_segment_mean": (5, 0),
    "roll_train_infer_correction": (6, 0),
    "scope_opd_paper": (6, 0),
    "scope_opd_weights": (5, 0),
    "sfpo_reposition": (6, 0),
    "skyrl_losses": (12, 0),
    "slime_losses": (12, 2),
    "stepwiser_labels": (5, 3),
    "topr_sequence": (4, 0),
    "trl_grpo_family": (21, 0),
    "uniqueness_weight": (6, 0),
    "v05_fusion": (7, 0),
    "vcpo_ess": (6, 0),
    "vcpo_gradient": (4, 0),
    "vcpo_opob": (5, 2),
    "verl_group_advantages": (7, 1),
    "verl_optimal_token_baseline": (6, 0),
    "verl_policy_losses": (16, 0),
    "verl_rollout_correction": (8, 0),
    "xrpo": (6, 0),
}


@cache
def read(file: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))


def name_of(case: dict[str, Any]) -> str:
    return case["name"] if "name" in case else case["note"]


def checked(file: str) -> list[dict[str, Any]]:
    return [case for case in read(file)["cases"] if name_of(case) not in LEFT_OUT.get(file, {})]


def vectors(*files: str) -> Any:
    """Run a test once per checked case of `files`."""
    cases = [(file, case) for file in files for case in checked(file)]
    return pytest.mark.parametrize("file, case", cases, ids=[f"{file}-{name_of(case)}" for file, case in cases])


def agrees(file: str, result: Any, expected: Any) -> None:
    """Assert that `result` is `expected` within the file's own tolerance."""
    result = result.detach().numpy() if isinstance(result, Tensor) else np.asarray(result, dtype=np.float64)
    tolerance = read(file).get("tolerance") or {"rtol": 1e-6, "atol": read(file)["atol"]}
    np.testing.assert_allclose(result, np.asarray(expected, dtype=np.float64), **tolerance)


def array(table: Any) -> np.ndarray:
    return np.asarray(table, dtype=np.float64)
