"""Losses, weights and gradients of other trainers' own functions, reproduced by recipes with the options they ship."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl.learner.loss import policy_loss, step_streams
from rl.methods.estimators import segments
from rl.methods.inputs import Tokens
from rl.methods.recipe import Recipe
from tests.support.batches import make_labels, make_tokens
from tests.support.vector_cases import agrees, array, vectors
from tests.support.vector_groups import part, recipe_of

REDUCE = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum": "sequence_sum",
}


def reduction(mode: str, width: float) -> str:
    """The text of verl's reduction `mode`; `width` is the divisor of the last one."""
    return {**REDUCE, "seq-mean-token-sum-norm": f"constant:length={int(width)},per_trajectory=false"}[mode]


def step_loss(batch: Tokens, recipe: Recipe) -> Tensor:
    """The recipe's loss of an optimiser step of one micro-batch."""
    streams, _ = step_streams(replace(batch, logp=batch.logp.detach()), recipe)
    return policy_loss(replace(batch, share=recipe.reduce(batch.mask.double(), batch.labels), streams=streams), recipe)


@vectors("mt_agg_loss")
def test_reductions_match_also_as_a_part_of_a_larger_step(file: str, case: dict[str, Any]) -> None:
    params = case["params"]
    loss, mask = torch.tensor(array(case["inputs"]["loss_mat"])), torch.tensor(array(case["inputs"]["loss_mask"]))
    rows, everything = len(mask), mask
    if "global_batch_size" in params:  # add the other workers' sequences: one token each, then all that are left
        count, columns = params["global_batch_size"] - rows, mask.shape[1] - 1
        spare = params["batch_num_tokens"] - mask.sum() - count
        filled = torch.arange(count * columns).view(count, columns) < spare
        everything = torch.cat([mask, torch.cat([torch.ones(count, 1), filled], dim=1).to(mask)])
        assert everything.sum() == params["batch_num_tokens"]
    words = reduction(params["mode"], params.get("loss_scale_factor", mask.shape[1]))
    share = recipe_of("dr_grpo", reduce=words).reduce(everything, make_labels(everything))[:rows]
    agrees(file, (loss * share).sum() * params.get("dp_size", 1), case["expected"]["loss"])


@vectors("mt_skyrl_loss_reduction")
def test_shares_match_advantages_scaled_for_a_plain_sum(file: str, case: dict[str, Any]) -> None:
    params, mask = case["params"], torch.tensor(array(case["inputs"]["loss_mask"]))
    prompts = [i for i, (start, end) in enumerate(params["prompt_boundaries"]) for _ in range(start, end)]
    words = {
        "token_mean": "token_mean",
        "sequence_mean": "sequence_mean",
        "prompt_mean": "group_mean",
        "seq_mean_token_sum_norm": f"constant:length={params['max_seq_len']}",
    }[params["mode"]]
    share = recipe_of("grpo", reduce=words).reduce(mask, make_labels(mask, group=prompts))
    advantages = torch.tensor(array(case["inputs"]["advantages"]))
    agrees(file, advantages * share, torch.tensor(array(case["expected"]["scaled"])) * mask)


POLICY_LOSSES = {
    "mt_ppo_clip_policy_loss": "vanilla",
    "mt_gspo_policy_loss": "gspo",
    "mt_cispo_policy_loss": "cispo",
}


@vectors(*POLICY_LOSSES, "verl_policy_losses")
def test_policy_losses_and_their_gradients_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    kind = POLICY_LOSSES.get(file) or params["variant"]
    batch = make_tokens(
        inputs.get("log_prob", inputs.get("logp")),
        inputs.get("old_log_prob", inputs.get("old_logp")),
        inputs["advantages"],
        inputs["response_mask"],
    )
    clip = {
        "low": params.get("clip_low", params.get("clip_ratio_low", 0.2)),
        "high": params.get("clip_high", params.get("clip_ratio_high", 0.2)),
    }
    mode = "seq-mean-token-mean" if kind in ("gspo", "geo_mean", "sapo") else params["loss_agg_mode"]
    words = {"reduce": reduction(mode, batch.mask.shape[1])}
    if kind == "vanilla":
        surrogate = part("dual_clip", **clip, cap=params.get("dual_clip_c", 3.0))
        recipe = recipe_of("grpo", surrogate=surrogate, **words)
    elif kind == "gspo":
        recipe = recipe_of("gspo", ratio="sequence_token", surrogate=part("clip", **clip), **words)
    elif kind == "geo_mean":
        recipe = recipe_of("gmpo", surrogate=part("geometric_clip", **clip), **words)
    elif kind == "sapo":
        recipe = recipe_of("sapo", **words)
    elif kind == "kl_cov":
        recipe = recipe_of("kl_cov", step=part("covariance", share=params["policy_loss"]["kl_cov_ratio"]), **words)
    else:
        recipe = recipe_of("cispo", surrogate=part("cispo", **clip), **words)
    if inputs.get("rollout_is_weights"):
        recipe = recipe.but(select=(lambda batch: torch.tensor(inputs["rollout_is_weights"]),))
    loss = step_loss(batch, recipe)
    loss.backward()
    agrees(file, loss, expected["loss"])
    agrees(file, batch.logp.grad, expected.get("grad_log_prob", expected.get("grad_logp")))


KL = {
    "k1": "kl_k1:coef=1.0",
    "abs": "kl_abs:coef=1.0",
    "k2": "kl_k2:coef=1.0",
    "k3": "kl_k3:coef=1.0",
    "low_var_kl": "kl_k3:coef=1.0",
    "k3+": "kl_k3:coef=1.0,straight_through=true",
}


@vectors("mt_kl_penalty")
def test_kl_estimates_and_their_gradients_match(file: str, case: dict[str, Any]) -> None:
    logprob = case["inputs"]["logprob"]
    batch = make_tokens(logprob, logprob, [0.0] * len(logprob), ref=case["inputs"]["ref_logprob"])
    (penalty,) = recipe_of("grpo", penalty=KL[case["params"]["kind"]]).penalty
    value = penalty(batch)
    value.sum().backward()
    agrees(file, value, case["expected"]["kl"])
    agrees(file, batch.logp.grad, case["expected"]["grad_logprob"])


@vectors("slime_losses")
def test_per_token_losses_and_gradients_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    batch = make_tokens(inputs["logp"], inputs["old_logp"], inputs["advantages"], ref=inputs["old_logp"])
    if params["fn"] == "kl":
        (penalty,) = recipe_of("grpo", penalty=KL[params["type"]]).penalty
        agrees(file, penalty(batch), expected["kl"])
        return
    if params["fn"] == "opsm":
        batch = make_tokens(
            inputs["logp"], inputs["old_logp"], inputs["advantages"], inputs["mask"], behaviour=inputs["old_logp"]
        )
        mask = torch.tensor(expected["mask"]).view_as(batch.logp) * batch.mask
        agrees(file, select(batch, part("off_policy_sequences", delta=params["delta"])), mask)
        return
    clip = {"low": params["eps_clip"], "high": params["eps_clip_high"]}
    name, surrogate = {
        "ppo": ("grpo", part("clip", **clip)),
        "ppo_dual": ("grpo", part("dual_clip", **clip, cap=params.get("eps_clip_c", 3.0))),
        "cispo": ("cispo", part("cispo", **clip)),
    }[params["fn"]]
    recipe = recipe_of(name, surrogate=surrogate)
    loss = recipe.surrogate(recipe.ratio(batch), batch)
    loss.sum().backward()
    agrees(file, loss, expected["loss_per_token"])
    agrees(file, batch.logp.grad, expected["grad"])


@vectors("mt_ppo_value_loss")
def test_the_critic_s_loss_and_gradient_match(file: str, case: dict[str, Any]) -> None:
    """Advantages are 0, so that only the critic's loss is left."""
    inputs, params = case["inputs"], case["params"]
    value = torch.tensor(inputs["vpreds"], dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros_like(value).tolist()
    batch = make_tokens(
        zeros,
        zeros,
        zeros,
        inputs["response_mask"],
        value=value,
        old_value=inputs["values"],
        returns=inputs["returns"],
    )
    penalty = part("value_error", coef=1.0, clip=params["cliprange_value"])
    loss = step_loss(batch, recipe_of("ppo", penalty=penalty, reduce=REDUCE[params["loss_agg_mode"]]))
    loss.backward()
    agrees(file, loss, case["expected"]["loss"])
    agrees(file, value.grad, case["expected"]["grad_vpreds"])


@vectors("mt_tis_weights", "mt_rollout_rejection_mask", "verl_rollout_correction")
def test_importance_weights_and_masks_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    zeros = np.zeros_like(array(inputs["log_ratio"])).tolist()
    current = make_tokens(inputs["log_ratio"], zeros, zeros, inputs["response_mask"])
    trainer = make_tokens(zeros, inputs["log_ratio"], zeros, inputs["response_mask"], behaviour=zeros)
    if "mask" in expected:
        options = params.get("options", params.get("rollout_rs")).split(",")
        masks = map(rejection_mask, options, params["threshold"].split(","), [trainer] * len(options))
        agrees(file, torch.stack(list(masks)).prod(0), expected["mask"])
        return
    level, cap = params.get("level", params.get("rollout_is", "token")), params.get("threshold", 2.0)
    for name, batch in (("truncated_is", current), ("mismatch_tis", trainer)):
        weight = select(batch, part(name, cap=cap, level=level))
        if params.get("batch_normalize") or params.get("rollout_is_batch_normalize"):
            if name == "truncated_is":
                continue
            step = recipe_of("grpo", step=part("normalised_tis", cap=cap, level=level))
            weight = step_streams(batch, step)[0]["weight"]
        agrees(file, weight, expected["weights"])


def rejection_mask(option: str, threshold: str, batch: Tokens) -> Tensor:
    """verl's mask `option` such as "seq_mean_k1"; bounds of k1 hold for sampler / trainer, one number u for 1/u to u."""
    bounds = [float(bound) for bound in threshold.split("_")]
    *scope, measure = option.split("_")
    bound: dict[str, Any] = {"measure": measure, "high": bounds[0]}
    if measure == "k1":
        bound = {"low": 1 / bounds[-1], "high": 1 / bounds[0] if len(bounds) == 2 else bounds[0]}
    where = {"level": "sequence", "over": scope[1]} if scope[0] == "seq" else {}
    mask = select(batch, part("mismatch_mask", **bound, **where))
    if measure == "k1" and not where:
        icepop = select(batch, part("mismatch_icepop", **bound))
        assert torch.equal(icepop > 0, mask > 0)
    return mask


@vectors("areal_decoupled_ppo")
def test_decoupled_losses_match(file: str, case: dict[str, Any]) -> None:
    """Their masks leave the weight itself on the tokens that remain."""
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    batch = make_tokens(
        inputs["logp"], inputs["old_logp"], inputs["advantages"], inputs["mask"], behaviour=inputs["rollout_logp"]
    )
    ratio, rule = "sequence" if params.get("level") == "sequence" else "token", params["rejection_sampling"]
    surrogate = "soft_gate" if params["sapo"] else "clip:high=0.2,low=0.2"
    recipe = recipe_of("decoupled_ppo", ratio=ratio, surrogate=surrogate, penalty=()).but(select=())
    if rule:
        where = {"level": rule["level"], "over": rule["agg"]}
        if rule["action"] == "clamp":
            weight = select(batch, part("mismatch_tis", cap=rule["upper"], **where))
        elif rule["metric"] == "ratio":
            weight = select(batch, part("mismatch_icepop", low=rule["lower"], high=rule["upper"]))
        else:
            measure = rule["metric"].removeprefix("kl_")
            weight = select(batch, part("mismatch_tis", cap=100.0))
            weight = weight * select(batch, part("mismatch_mask", measure=measure, high=rule["upper"], **where))
        agrees(file, weight, expected["behave_weight"])
        recipe = recipe.but(select=(lambda batch: weight,))
    loss = step_loss(batch, recipe)
    loss.backward()
    agrees(file, loss, expected["loss"])
    agrees(file, batch.logp.grad, expected["grad_logp"])


def select(batch: Tokens, words: str) -> Tensor:
    """The weights of the part that `words` name."""
    (only,) = recipe_of("grpo", select=words).select
    return only(batch)


@vectors("mt_icepop_and_tis_token")
def test_icepop_and_truncation_match_on_ragged_rows(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    trainer, sampler = np.concatenate(inputs["train_log_probs"]), np.concatenate(inputs["rollout_log_probs"])
    batch = make_tokens([trainer.tolist()], [sampler.tolist()], [0.0])
    loss = torch.tensor(inputs["pg_loss"])
    truncated = select(batch, part("truncated_is", floor=params["low"], cap=params["high"]))
    agrees(file, (loss * truncated)[0], expected["tis_pg_loss"])
    icepop = select(batch, part("masked_is", low=params["low"], high=params["high"]))
    agrees(file, (loss * icepop)[0], expected["icepop_pg_loss"])


@vectors("mt_dart_tis_ppo_loss")
def test_a_dual_clip_weighed_by_the_samplers_mismatch_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    old, mask, advantages = inputs["old_log_prob"], inputs["response_mask"], inputs["advantages"]
    batch = make_tokens(inputs["log_prob"], old, advantages, mask)
    weight = torch.ones_like(batch.logp)
    if inputs["rollout_log_prob"]:  # the trainer's own log-probabilities against the sampler's
        mismatch = make_tokens(old, inputs["rollout_log_prob"], advantages, mask)
        weight = select(mismatch, part("truncated_is", cap=params["tis_cap"]))
        missing = ~torch.tensor(inputs["rollout_log_prob"]).bool().any(1)
        weight = weight.where(~missing[:, None], torch.ones_like(weight))  # as if it were not recorded
    surrogate = part("dual_clip", low=params["clip_low"], high=params["clip_high"], cap=params["dual_clip_c"])
    for recipe in (recipe_of("dart"), recipe_of("dart", surrogate=surrogate)):  # the file's options are the recipe's
        batch.logp.grad = None
        loss = step_loss(batch, recipe.but(select=(lambda batch: weight.detach(),)))
        loss.backward()
        agrees(file, loss, case["expected"]["loss"])
        agrees(file, batch.logp.grad, case["expected"]["grad_log_prob"])


@vectors("mt_segment_masked_mean", "roll_segment_mean")
def test_means_over_turns_match(file: str, case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    values, mask = torch.tensor(array(inputs.get("tensor", inputs.get("values")))), torch.tensor(inputs["mask"]).bool()
    means = segments.mean_over_turn(values, mask, make_labels(mask))
    agrees(file, means, case["expected"].get("segment_mean", case["expected"].get("out")))
