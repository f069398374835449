"""Losses for stale data, weights for the sampler's mismatch and statistics over a step, against their authors' numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rl.learner.loss import policy_loss, step_streams
from rl.methods.inputs import Tokens
from rl.methods.parts import surrogate
from rl.methods.recipe import Recipe
from tests.support.batches import make_labels, make_tokens
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import part, recipe_of, sequences


def tokens_of(inputs: dict[str, Any], **fields: Any) -> Tokens:
    """Tokens of a case with `logp`, `old_logp` (the trainer's) and `rollout_logp`; single rows may lack a dimension."""

    def rows(table: Any) -> Any:
        return table if isinstance(table[0], list) else [table]

    mask = inputs.get("mask", inputs.get("response_mask"))
    if "rollout_logp" in inputs:
        fields["behaviour"] = rows(inputs["rollout_logp"])
    return make_tokens(rows(inputs["logp"]), rows(inputs["old_logp"]), inputs["advantages"], rows(mask), **fields)


def total(batch: Tokens, recipe: Recipe, *, plain_sum: bool = False) -> Tensor:
    """The recipe's loss of a step of these tokens alone, or the plain sum of what it gives each token."""
    streams, _ = step_streams(replace(batch, logp=batch.logp.detach()), recipe)
    mask = batch.mask.double()
    share = mask if plain_sum else recipe.reduce(mask, batch.labels)
    return policy_loss(replace(batch, share=share, streams={**batch.streams, **streams}), recipe)


def check_loss(file: str, case: dict[str, Any], batch: Tokens, recipe: Recipe, *, plain_sum: bool = False) -> None:
    loss = total(batch, recipe, plain_sum=plain_sum)
    loss.backward()
    expected = case["expected"]
    agrees(file, loss, expected["loss_sum" if plain_sum else "loss"])
    agrees(file, batch.logp.grad, torch.tensor(expected["grad_logp"]).view_as(batch.logp))


@pytest.mark.parametrize("scale", [0.99, 1.01])
def test_a_loss_or_a_gradient_that_is_off_by_a_hundredth_fails(scale: float) -> None:
    logp = torch.tensor([[-1.0, -2.0]], dtype=torch.float64)
    case: dict[str, Any] = {"expected": {}}
    inputs = {"logp": logp.tolist(), "old_logp": [[-1.1, -1.8]], "advantages": [[1.0, 1.0]], "mask": [[1, 1]]}
    recipe = recipe_of("ppo", penalty="none")
    loss = total(batch := tokens_of(inputs), recipe)
    loss.backward()
    assert batch.logp.grad is not None and loss.item() != 0
    case["expected"] = {"loss": loss.item(), "grad_logp": batch.logp.grad.tolist()}
    check_loss("roll_offpolicy_losses", case, tokens_of(inputs), recipe)
    for name, value in (("loss", loss.item() * scale), ("grad_logp", (batch.logp.grad * scale).tolist())):
        off = {"expected": {**case["expected"], name: value}}
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            check_loss("roll_offpolicy_losses", off, tokens_of(inputs), recipe)


@vectors("roll_offpolicy_losses")
def test_losses_of_roll_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    scores = torch.tensor(inputs["scores"], dtype=torch.float64)[:, None].expand(array(inputs["logp"]).shape)
    batch = tokens_of(inputs, streams={"reward": scores})
    level = {"token": "token", "segment": "turn"}[params["ratio_level"]]
    low, high = params.get("pg_clip_low", 0.2), params.get("pg_clip_high", 0.2)
    cispo = {"low": params.get("cispo_epsilon_low", 0.1), "high": params.get("cispo_epsilon_high", 0.1)}
    name, words = {
        "vanilla": ("reinforce", {"surrogate": "log_likelihood"}),
        "ppo": ("ppo", {"surrogate": part("clip", low=low, high=high), "penalty": "none"}),
        "tis": ("cispo", {"surrogate": part("cispo", low=1.0, high=params.get("tis_upper_bound", 1.0) - 1)}),
        "topr": ("topr", {"surrogate": part("tapered", negative=params.get("topr_negative_weight", 1.0))}),
        "cispo": ("cispo", {"surrogate": part("cispo", **cispo)}),
        "kimi15": ("reinforce", {"surrogate": "log_likelihood", "penalty": "square_log_ratio:coef=0.05"}),
    }[params["variant"]]
    recipe = recipe_of(name, ratio=level, **words)
    for key, reduce in (("token_mean", "token_mean"), ("seq_mean_token_sum", "sequence_sum")):
        agrees(file, total(batch, recipe_of(name, ratio=level, reduce=reduce, **words)), expected[key])
    loss = total(batch, recipe, plain_sum=True)
    loss.backward()
    agrees(file, loss, array(expected["loss_per_token"]).sum())
    agrees(file, batch.logp.grad, expected["grad_logp_of_masked_sum"])


@vectors("topr_sequence")
def test_topr_weighs_failures_by_the_ratio_of_their_trajectory(file: str, case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    reward = torch.tensor(inputs["reward"], dtype=torch.float64)[:, None].expand(array(inputs["logp"]).shape)
    batch = make_tokens(
        inputs["logp"], inputs["old_logp"], inputs["reward"], inputs["mask"], streams={"reward": reward}
    )
    recipe = recipe_of("topr", reduce="sequence_sum")
    loss = total(batch, recipe)
    loss.backward()
    agrees(file, loss, expected["loss"])
    agrees(file, batch.logp.grad, expected["grad_logp"])


@vectors("skyrl_losses")
def test_losses_of_skyrl_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    kind = params["fn"]
    if kind == "reduction":
        check_shares(file, case)
        return
    if kind == "corrections":
        check_corrections(file, case)
        return
    if kind == "maxrl":
        returns = array(inputs["rewards"]).sum(1)
        records = sequences(array(inputs["mask"]), inputs["group"], returns)
        credit = records.on_trajectories(recipe_of("maxrl", baseline="group_mean:singleton=raw"))
        agrees(file, credit, array(expected["advantages"])[:, 0])
        return
    delta = params.get("dppo", {})
    words = {
        "rollout_is": {
            "surrogate": "log_likelihood",
            "select": part("masked_is", low=1 - params.get("eps_clip_low", 0), high=1 + params.get("eps_clip_high", 0)),
        },
        "dppo_tv": {"select": "divergence_mask:measure=tv,low=0.2,high=0.2"},
        "dppo_kl": {
            "select": part(
                "divergence_mask", measure="kl", low=delta.get("delta_low", 0), high=delta.get("delta_high", 0)
            )
        },
        "cispo_rollout": {"surrogate": "cispo:low=1.0,high=4.0"},
    }[kind]
    name = "cispo_sampler" if kind == "cispo_rollout" else "dppo"
    check_loss(file, case, tokens_of(inputs), recipe_of(name, **words), plain_sum=True)


def check_shares(file: str, case: dict[str, Any]) -> None:
    params, mask = case["params"], torch.tensor(array(case["inputs"]["mask"]))
    prompts = [i for i, (start, end) in enumerate(params["prompt_boundaries"]) for _ in range(start, end)]
    words = {
        "sequence_mean": "sequence_mean",
        "prompt_mean": "group_mean",
        "seq_mean_token_sum_norm": f"constant:length={params['max_seq_len']}",
    }[params["mode"]]
    share = recipe_of("grpo", reduce=words).reduce(mask, make_labels(mask, group=prompts))
    scaled = torch.tensor(array(case["expected"]["scaled"])) * mask
    agrees(file, torch.tensor(array(case["inputs"]["advantages"])) * share, scaled)


def check_corrections(file: str, case: dict[str, Any]) -> None:
    params, expected, batch = case["params"], case["expected"], tokens_of(case["inputs"])
    low, high = params["outlier_token_is_threshold_low"], params["outlier_token_is_threshold_high"]
    bands = {
        "outlier_seq_keep": part("mismatch_mask", level="sequence", over="max", low=low, high=high),
        "token_keep": "mismatch_mask:low={token_mask_is_threshold_low},high={token_mask_is_threshold_high}",
        "geo_keep": "mismatch_mask:level=sequence,over=mean,low={geo_mask_low},high={geo_mask_high}",
        "product_keep": "mismatch_mask:level=sequence,over=sum,low={product_mask_low},high={product_mask_high}",
        "token_tis": "mismatch_tis:cap={token_tis_ratio_clip_high}",
        "sequence_tis": "mismatch_tis:level=sequence,cap={sequence_tis_ratio_clip_high}",
    }
    for key, text in bands.items():
        (select,) = recipe_of("mis", select=text.format(**params)).select
        agrees(file, select(batch), torch.tensor(expected[key]).double() * batch.mask)


@vectors("prime_rl_loss")
def test_losses_of_prime_rl_match(file: str, case: dict[str, Any]) -> None:
    params = case["params"]
    regulariser = part("square_log_ratio", coef=params["kl_tau"], anchor="sampler")
    select = {
        "default": part("divergence_mask", low=params.get("dppo_mask_low", 0), high=params.get("dppo_mask_high", 0)),
        "ipo": part(
            "divergence_mask", low=params.get("ipo_threshold", 0), high=params.get("ipo_threshold", 0), side="both"
        ),
    }[params["fn"]]
    recipe = recipe_of("dppo", select=select, penalty=regulariser)
    check_loss(file, case, tokens_of(case["inputs"]), recipe, plain_sum=True)


TRL_LOSSES: dict[str, tuple[str, dict[str, str]]] = {
    "grpo": ("grpo", {"reduce": "sequence_mean"}),
    "dapo": ("dapo", {"reduce": "token_mean"}),
    "bnpo": ("grpo", {"reduce": "token_mean"}),
    "cispo": ("cispo", {"reduce": "token_mean"}),
    "vespo": ("vespo", {"reduce": "token_mean", "ratio": "sequence_product"}),
    "luspo": ("gspo", {"reduce": "sequence_sum"}),
}


@vectors("trl_grpo_family")
def test_losses_and_weights_of_trl_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    batch = tokens_of(inputs)
    if params["fn"] == "gamma_weights":
        one = replace(batch, adv=batch.adv.sign(), behaviour=None)
        recipe = recipe_of("vespo")
        mismatch = 0.0
        if "importance_sampling_ratio" in inputs:  # in one factor with the ratio of the trainer's two policies
            mismatch = torch.tensor(inputs["importance_sampling_ratio"]).double().log().sum(-1, keepdim=True)
        loss = recipe.surrogate(recipe.ratio(one) + mismatch, one)
        phi = (loss / (-one.adv * one.logp)).mean(-1, keepdim=True)
        agrees(file, phi, expected["phi"])
    elif params["fn"] == "off_policy_mask":
        (select,) = recipe_of("opsm", select=part("off_policy_sequences", delta=params["threshold"])).select
        agrees(file, select(batch), torch.tensor(expected["keep"]) * batch.mask)
    elif params["fn"] == "sampler_is_ratio":
        agrees(file, sampler_weight(batch, params), torch.tensor(expected["ratio"]).double() * batch.mask)
    else:
        name, words = TRL_LOSSES[params["loss_type"]]
        recipe = recipe_of(name, **words)
        low, high = 0.2, params.get("eps_high", 0.2)
        if params["loss_type"] == "cispo":  # its bound is the cap itself
            recipe = recipe.but(surrogate=partial(surrogate.cispo, low=1.0, high=high - 1))
        elif params["loss_type"] != "vespo":
            clip = part("clip", low=low, high=high)
            recipe = recipe.but(**{"surrogate": recipe_of("grpo", surrogate=clip).surrogate})
        if "delta" in params:
            recipe = recipe.but(surrogate=partial(surrogate.dual_clip, low=low, high=high, cap=params["delta"]))
        if params["level"] == "sequence" and params["loss_type"] == "grpo":
            recipe = recipe.but(ratio=recipe_of("gspo").ratio)
        check_loss(file, case, replace(batch, behaviour=None), recipe)


def sampler_weight(batch: Tokens, params: dict[str, Any]) -> Tensor:
    """TRL's ratio of trainer against sampler in the `mode` of a case, capped or masked."""
    level, _, action = params["mode"].partition("_")
    low, high = params["clip_min"] or 0.0, params["clip_max"]
    weight = part("mismatch_tis", level=level, cap=high if action == "truncate" else 1e6)
    if action == "truncate":
        weight += f",floor={low}"
    (select,) = recipe_of("tis", select=weight).select
    if action == "truncate":
        return select(batch)
    if level == "token":
        (select,) = recipe_of("icepop", select=part("mismatch_icepop", low=low, high=high)).select
        return select(batch)
    mask = part("mismatch_mask", level=level, over="sum", low=low, high=high)
    (keep,) = recipe_of("mis", select=mask).select
    return select(batch) * keep(batch)


@vectors("minpro")
def test_minpro_weighs_by_the_least_ratio_before(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    zeros = (0 * array(inputs["log_ratio"])).tolist()
    batch = make_tokens(inputs["log_ratio"], zeros, inputs["advantage"], inputs["mask"])
    clip = part("cispo", low=params["eps_low"], high=params["eps_high"])
    recipe = recipe_of("minpro", surrogate=clip, reduce="token_mean")
    before = (recipe.ratio(batch) - batch.logp).exp().detach()
    agrees(file, before * batch.mask, torch.tensor(array(expected["prefix_min"])) * batch.mask)
    total(batch, recipe).backward()
    agrees(file, batch.logp.grad, expected["grad_logp_token_mean"])


@vectors("bapo_adaptive_clip")
def test_bapo_finds_the_bounds_that_were_released(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    log_ratio = torch.tensor(array(inputs["ratio"])).log().tolist()
    zeros = (0 * array(inputs["ratio"])).tolist()
    batch = make_tokens(log_ratio, zeros, inputs["advantages"], inputs["response_mask"])
    step = part(
        "balanced_clip",
        target=params["adv_ratio_target"],
        low=params["ratio_lower_start"],
        low_most=params["ratio_lower_max"],
        high=params["ratio_upper_start"],
        high_most=params["ratio_upper_max"],
        stride=params["ratio_upper_step"],
        measure="released",
    )
    recipe = recipe_of("bapo", step=step)
    streams, _ = step_streams(replace(batch, logp=batch.logp.detach()), recipe)
    agrees(file, streams["low"][0, 0], expected["clip_low"])
    agrees(file, streams["high"][0, 0], expected["clip_high"])
    check_loss(file, case, batch, recipe)


@vectors("areal_m2po_mask")
def test_the_second_moment_is_held_by_a_mask(file: str, case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    zeros = (0 * array(inputs["prox_logp"])).tolist()
    batch = make_tokens(zeros, inputs["prox_logp"], zeros, inputs["mask"], behaviour=inputs["behave_logp"])
    step = part("mismatch_second_moment", budget=case["params"]["m2_threshold"])
    streams, _ = step_streams(batch, recipe_of("m2po", step=step))
    agrees(file, streams["weight"], case["expected"]["mask"])


@vectors("m2po_authors_clip")
def test_the_second_moment_is_held_by_a_clip(file: str, case: dict[str, Any]) -> None:
    params, expected = case["params"], case["expected"]
    step = part(
        "second_moment_clip", budget=params["M2_budget"], low=params["miniclip_low"], high=params["miniclip_high"]
    )
    recipe = recipe_of("m2po", step=step, surrogate="adaptive_clip", reduce="token_mean")
    batch = replace(tokens_of(case["inputs"]), behaviour=None)
    streams, _ = step_streams(replace(batch, logp=batch.logp.detach()), recipe)
    agrees(file, 1 - streams["low"][0, 0], min(float(expected["eps_low"]), 1.0))
    agrees(file, streams["high"][0, 0] - 1, expected["eps_high"])
    check_loss(file, case, batch, recipe)


@vectors("roll_train_infer_correction")
def test_weights_and_filters_of_roll_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    zeros = (0 * array(inputs["train_logp"])).tolist()
    batch = make_tokens(zeros, inputs["train_logp"], zeros, inputs["response_mask"], behaviour=inputs["rollout_logp"])
    levels = {"token": "token", "sequence": "sequence", "segment": "turn"}
    if params["is_weight"]:
        level = levels[params["is_weight"]]
        over = "mean" if level == "turn" else "sum"
        text = part("mismatch_tis", cap=params["upper_bound"], level=level, over=over)
        (select,) = recipe_of("tis", select=text).select
        agrees(file, select(batch), torch.tensor(expected["is_weight"]).double() * batch.mask)
    keep = batch.mask.double()
    for rule in params["filters"]:
        level = levels[rule.get("agg_type", "token")]
        text = "mismatch_mask:measure=change,high=0.2"
        if "ratio_enabled" in rule:
            text = part("mismatch_mask", level=level, low=rule["ratio_low"], high=rule["ratio_high"])
        (select,) = recipe_of("mis", select=text).select
        keep = keep * select(batch)
    agrees(file, keep, torch.tensor(expected["filter_mask"]).double() * batch.mask)


@vectors("remix")
def test_remix_penalises_the_distance_from_two_policies(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    if params["kind"] != "kl_convex":
        return  # of the batch, in `test_task_vectors.py`
    logp, base, before = (array(inputs[f"{name}logp"]) for name in ("", "base_", "precedent_"))
    batch = make_tokens([logp.tolist()], [before.tolist()], [0.0], ref=[base.tolist()])
    (penalty,) = recipe_of("remix", penalty=part("kl_convex", coef=params["beta"], base=params["lam"])).penalty
    expected = case["expected"]
    value = penalty(batch).detach().numpy()[0]
    agrees(file, value.mean() if value.shape != array(expected["penalty"]).shape else value, expected["penalty"])


@vectors("vcpo_ess")
def test_the_step_follows_the_effective_number_of_trajectories(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    zeros = (0 * array(inputs["logp"])).tolist()
    batch = make_tokens(zeros, inputs["logp"], zeros, inputs["response_mask"], behaviour=inputs["rollout_logp"])
    for key, rule in (("lr_multiplier", params["scaling_rule"]), ("ess_ratio", "linear")):
        step = part("effective_size", base=params["base_ess_ratio"], rule=rule)
        agrees(file, step_streams(batch, recipe_of("vcpo", step=step))[1], expected[key])
    sampled = batch.mask.any(-1)
    for key, cap in (("seq_is_clipped", params["rollout_is_threshold"]), ("seq_is", 1e9)):
        (select,) = recipe_of("vcpo", select=part("mismatch_tis", cap=cap, level="sequence")).select
        agrees(file, select(batch).max(-1).values[sampled], torch.tensor(expected[key])[sampled])
