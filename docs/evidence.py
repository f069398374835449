"""What each recipe's numbers were compared with, and what its miniature run gave: columns of `docs/methods.md`."""

from __future__ import annotations

import ast
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

VECTORS: dict[
    str, tuple[str, ...]
] = {  # files of `tests/vectors/`: another implementation's numbers, or hand-made ones
    "ace": ("ace_error_penalty",),
    "adhint": ("adhint",),
    "archer": ("mt_archer_targets",),
    "areal": ("areal_prox_and_staleness",),
    "arpo": ("mt_arpo_advantage_attribution", "mt_arpo_entropy_branching"),
    "at_grpo": ("mt_atgrpo_groups",),
    "bapo": ("bapo_adaptive_clip",),
    "bilevel_ppo": ("mt_ragen_bilevel_gae",),
    "cispo": ("mt_cispo_policy_loss", "slime_losses"),
    "cispo_sampler": ("skyrl_losses",),
    "d3s": ("d3s_selection",),
    "dart": ("mt_dart_tis_ppo_loss", "mt_dart_high_entropy_steps"),
    "decoupled_ppo": ("areal_decoupled_ppo",),
    "dars": ("dars_schedule",),
    "digiq": ("digiq_extraction",),
    "dots": ("prefix_and_replay",),
    "dppo": ("skyrl_losses", "prime_rl_loss"),
    "dapo": ("mt_dapo_overlong_penalty", "mt_agg_loss"),
    "dr_grpo": ("mt_grpo_outcome_advantage", "mt_agg_loss"),
    "erloo": ("mt_kernelgym_erloo", "mt_kernelgym_erloo_norm"),
    "fapo": ("fapo_advantage", "fapo_policy_reward", "fapo_genrm_reward"),
    "echo": ("echo_hybrid_shaping", "echo_branch_prune", "ttrl_majority"),
    "ettrl": ("ettrl_ear", "ttrl_majority"),
    "gdro_prompts": ("gdro_prompt_weights", "gdro_online_bins"),
    "gdro_rollouts": ("gdro_rollout_arms", "gdro_sqrt_rule", "gdro_online_bins"),
    "gdpo": ("mt_gdpo_advantage", "gdpo_advantage"),
    "gigpo": ("mt_gigpo_advantage", "mt_gigpo_similarity_groups", "mt_roll_gigpo"),
    "gmpo": ("verl_policy_losses",),
    "grpo": ("mt_grpo_outcome_advantage", "mt_grpo_vectorized_outcome_advantage", "mt_ppo_clip_policy_loss"),
    "grpo_roc": ("mt_grpo_roc_downsample",),
    "gspo": ("mt_gspo_policy_loss",),
    "hgpo": ("mt_hgpo_advantage",),
    "icepop": ("mt_icepop_and_tis_token", "trl_grpo_family"),
    "igpo": (
        "mt_igpo_info_gain",
        "mt_igpo_outcome_f1",
        "mt_igpo_turn_advantage",
        "mt_igpo_snapshot_discounted_advantage",
    ),
    "infopo": ("mt_infopo_info_gain", "mt_infopo_fusion"),
    "kl_cov": ("verl_policy_losses",),
    "m2po": ("areal_m2po_mask", "m2po_authors_clip"),
    "maxrl": ("skyrl_losses",),
    "mc_grpo": ("mc_grpo_advantage", "mc_grpo_minabs_ablation"),
    "minpro": ("minpro",),
    "mis": ("mt_rollout_rejection_mask", "skyrl_losses", "roll_train_infer_correction"),
    "mssr": ("mssr_mvsr",),
    "opo": ("mt_opo_outcome_advantage",),
    "opsm": ("slime_losses", "trl_grpo_family"),
    "otb": ("verl_optimal_token_baseline", "mt_tir_optimal_token_baseline"),
    "otr": ("otr_loss",),
    "pivotrl": ("mt_pivotrl_filter",),
    "pope": ("prefix_and_replay",),
    "portool": ("mt_portool_tree_advantage",),
    "ppo": ("mt_gae_advantage_return", "mt_ppo_value_loss", "mt_ppo_clip_policy_loss"),
    "props": ("props_quota",),
    "ps_grpo": ("ps_grpo_reward",),
    "reinforce_pp": ("mt_reinforce_plus_plus_advantage",),
    "reinforce_pp_baseline": ("mt_reinforce_plus_plus_baseline_advantage",),
    "remix": ("remix",),
    "rlep": ("prefix_and_replay",),
    "rloo": ("mt_rloo_outcome_advantage",),
    "sapo": ("verl_policy_losses", "areal_decoupled_ppo"),
    "scope_opd": ("scope_opd_paper", "scope_opd_weights"),
    "scope_prm": ("recycle_first_error",),
    "seeupo": ("mt_seeupo_advantage", "mt_seeupo_ratio_update"),
    "seeupo_agents": ("mt_seeupo_ratio_update",),
    "sfpo": ("sfpo_reposition",),
    "starpo_s": ("mt_starpos_filter", "mt_ragen_reward_normalisation"),
    "step_search": ("mt_stepsearch_step_reward", "mt_stepsearch_f1_and_keys"),
    "stepwiser": ("stepwiser_labels",),
    "swarm": ("swarm_sharing",),
    "tis": ("mt_tis_weights", "verl_rollout_correction", "roll_train_infer_correction"),
    "topr": ("topr_sequence", "roll_offpolicy_losses"),
    "tree_opo": ("mt_tree_opo_advantage",),
    "trloo": ("mt_kernelgym_trloo",),
    "ttrl": ("ttrl_majority",),
    "turn_grpo": ("mt_kernelgym_grpo", "mt_kernelgym_turn_independent_grpo"),
    "turn_ppo": ("mt_gae_advantage_return", "mt_segment_masked_mean"),
    "ui_s1": ("mt_uis1_advantage",),
    "uniqueness": ("uniqueness_weight",),
    "v05": ("v05_fusion",),
    "vcpo": ("vcpo_ess", "vcpo_opob", "vcpo_gradient"),
    "vespo": ("trl_grpo_family",),
    "xrpo": ("xrpo",),
}


def vectors(name: str) -> str:
    """How many cases a recipe is compared with by `tests/rl/methods/vectors`; "" for none."""
    counts = _compared_cases()
    files = VECTORS.get(name, ())
    return f"{sum(counts[file] for file in files)} cases" if files else ""


def _compared_cases() -> dict[str, int]:
    """The number of compared cases of each file, read from `COUNTS` of `tests/support/vector_cases.py`."""
    source = (ROOT / "tests" / "support" / "vector_cases.py").read_text(encoding="utf-8")
    literal = source.split("\nCOUNTS = ", 1)[1].split("\n}", 1)[0] + "\n}"
    return {file: compared for file, (compared, _) in ast.literal_eval(literal).items()}


def left_out() -> dict[str, str]:
    """The files of the collection that are not in `tests/vectors/`, with the reason: `LEFT_OUT_FILES` of the tests."""
    source = (ROOT / "tests" / "support" / "vector_cases.py").read_text(encoding="utf-8")
    literal = source.split("\nLEFT_OUT_FILES: dict[str, str] = ", 1)[1].split("\n}", 1)[0] + "\n}"
    return ast.literal_eval(literal)


def compared() -> list[tuple[str, str, str]]:
    """Each file of `tests/vectors/`, the methods that it stands for, and its cases: "7, 1 not"."""
    source = (ROOT / "tests" / "support" / "vector_cases.py").read_text(encoding="utf-8")
    literal = source.split("\nCOUNTS = ", 1)[1].split("\n}", 1)[0] + "\n}"
    rows = []
    for file, (count, missing) in ast.literal_eval(literal).items():
        methods = ", ".join(f"`{name}`" for name, files in VECTORS.items() if file in files)
        rows.append((f"`{file}`", methods, f"{count}, {missing} not" if missing else str(count)))
    return rows


def measured(name: str) -> str:
    """What `benchmarks` found a recipe to add to its parent: mean and 95 % interval, task by task."""
    results = ROOT / "benchmarks" / "results"
    files = [file for kind in ("credit", "methods") for file in sorted(results.glob(f"{kind}-*.json"))]
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    pairs = [(entry, _measure(content)) for content in contents for entry in content["comparisons"]]
    return "; ".join(
        f"{entry['env'].rsplit('/', 1)[-1].rsplit(':')[-1]}{_variant(entry['comparison'])}: "
        f"{entry[key]['mean']:+.3f} "
        f"({entry[key]['interval'][0]:+.3f} to {entry[key]['interval'][1]:+.3f}) against `{entry['against']}`"
        for entry, key in pairs
        if entry["arm"] == name
    )


def _measure(content: dict) -> str:
    """Held-out success where the curves of a comparison's arms cannot be compared, else the area under them."""
    return "held_out" if content.get("setting", {}).get("measure") == "held_out" else "area"


def _variant(comparison: str) -> str:
    """What sets a comparison apart from others on the same environment: " (longer)" of `clarify-longer`."""
    return f" ({variant})" if (variant := comparison.partition("-")[2]) else ""
