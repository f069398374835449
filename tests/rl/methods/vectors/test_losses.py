"""Losses and gradients of other trainers' own functions, reproduced by the parts. See `test_vectors.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from rl.methods.estimators import segments
from rl.methods.parts import penalty, ratio, reduce, select, surrogate
from tests.support.batches import labels, tokens
from tests.support.vector_cases import agrees, array, vectors

REDUCE = {
    "token-mean": reduce.token_mean,
    "seq-mean-token-mean": reduce.sequence_mean,
    "seq-mean-token-sum": reduce.sequence_sum,
}


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
    width = params.get("loss_scale_factor", mask.shape[1])
    shipped = partial(reduce.constant, length=width, per_trajectory=False)
    part = {**REDUCE, "seq-mean-token-sum-norm": shipped}[params["mode"]]
    share = part(everything, labels(everything))[:rows]
    agrees(file, (loss * share).sum() * params.get("dp_size", 1), case["expected"]["loss"])


@vectors("mt_skyrl_loss_reduction")
def test_shares_match_advantages_scaled_for_a_plain_sum(file: str, case: dict[str, Any]) -> None:
    params, mask = case["params"], torch.tensor(array(case["inputs"]["loss_mask"]))
    prompts = [i for i, (start, end) in enumerate(params["prompt_boundaries"]) for _ in range(start, end)]
    part = {
        "token_mean": reduce.token_mean,
        "sequence_mean": reduce.sequence_mean,
        "prompt_mean": reduce.group_mean,
        "seq_mean_token_sum_norm": partial(reduce.constant, length=params["max_seq_len"]),
    }[params["mode"]]
    share = part(mask, labels(mask, group=prompts))
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
    batch = tokens(
        inputs.get("log_prob", inputs.get("logp")),
        inputs.get("old_log_prob", inputs.get("old_logp")),
        inputs["advantages"],
        inputs["response_mask"],
    )
    clip = {
        "low": params.get("clip_low", params.get("clip_ratio_low", 0.2)),
        "high": params.get("clip_high", params.get("clip_ratio_high", 0.2)),
    }
    if kind == "vanilla":
        loss = surrogate.dual_clip(ratio.token(batch), batch, **clip, cap=params.get("dual_clip_c", 3.0))
    elif kind == "gspo":
        loss = surrogate.clip(ratio.sequence_token(batch), batch, **clip)
    else:
        loss = surrogate.cispo(ratio.token(batch), batch, **clip)
    if inputs.get("rollout_is_weights"):
        loss = loss * torch.tensor(inputs["rollout_is_weights"])
    norm = partial(reduce.constant, length=batch.mask.shape[1], per_trajectory=False)
    mode = "seq-mean-token-mean" if kind == "gspo" else params["loss_agg_mode"]
    share = {**REDUCE, "seq-mean-token-sum-norm": norm}[mode](batch.mask.double(), batch.labels)
    total = (loss * share).sum()
    total.backward()
    agrees(file, total, expected["loss"])
    agrees(file, batch.logp.grad, expected.get("grad_log_prob", expected.get("grad_logp")))


KL = {
    "k1": penalty.kl_k1,
    "abs": penalty.kl_abs,
    "k2": penalty.kl_k2,
    "k3": penalty.kl_k3,
    "low_var_kl": penalty.kl_k3,
    "k3+": partial(penalty.kl_k3, straight_through=True),
}


@vectors("mt_kl_penalty")
def test_kl_estimates_and_their_gradients_match(file: str, case: dict[str, Any]) -> None:
    batch = tokens(
        case["inputs"]["logprob"],
        case["inputs"]["logprob"],
        [0.0] * len(case["inputs"]["logprob"]),
        ref=case["inputs"]["ref_logprob"],
    )
    value = KL[case["params"]["kind"]](batch, coef=1.0)
    value.sum().backward()
    agrees(file, value, case["expected"]["kl"])
    agrees(file, batch.logp.grad, case["expected"]["grad_logprob"])


@vectors("slime_losses")
def test_per_token_losses_and_gradients_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    batch = tokens(inputs["logp"], inputs["old_logp"], inputs["advantages"], ref=inputs["old_logp"])
    if params["fn"] == "kl":
        agrees(file, KL[params["type"]](batch, coef=1.0), expected["kl"])
        return
    part = {
        "ppo": surrogate.clip,
        "ppo_dual": partial(surrogate.dual_clip, cap=params.get("eps_clip_c", 3.0)),
        "cispo": surrogate.cispo,
    }[params["fn"]]
    loss = part(ratio.token(batch), batch, low=params["eps_clip"], high=params["eps_clip_high"])
    loss.sum().backward()
    agrees(file, loss, expected["loss_per_token"])
    agrees(file, batch.logp.grad, expected["grad"])


@vectors("mt_ppo_value_loss")
def test_the_critic_s_loss_and_gradient_match(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    value = torch.tensor(inputs["vpreds"], dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros_like(value).tolist()
    batch = tokens(
        zeros,
        zeros,
        zeros,
        inputs["response_mask"],
        value=value,
        old_value=inputs["values"],
        returns=inputs["returns"],
    )
    share = REDUCE[params["loss_agg_mode"]](batch.mask.double(), batch.labels)
    loss = (penalty.value_error(batch, coef=1.0, clip=params["cliprange_value"]) * share).sum()
    loss.backward()
    agrees(file, loss, case["expected"]["loss"])
    agrees(file, value.grad, case["expected"]["grad_vpreds"])


@vectors("mt_tis_weights", "mt_rollout_rejection_mask", "verl_rollout_correction")
def test_importance_weights_and_masks_match(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    zeros = np.zeros_like(array(inputs["log_ratio"])).tolist()
    batch = tokens(inputs["log_ratio"], zeros, zeros, inputs["response_mask"])
    if "mask" in expected:  # their bounds hold for sampler / trainer, one number u standing for [1/u, u]
        bounds = [float(bound) for bound in params["threshold"].split("_")]
        low, high = 1 / bounds[-1], 1 / bounds[0] if len(bounds) == 2 else bounds[0]
        agrees(file, select.masked_is(batch, low=low, high=high) > 0, expected["mask"])
        return
    level = params.get("level", params.get("rollout_is", "token"))
    weight = select.truncated_is(batch, cap=params.get("threshold", 2.0), level=level)
    agrees(file, weight, expected["weights"])


@vectors("mt_icepop_and_tis_token")
def test_icepop_and_truncation_match_on_ragged_rows(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    trainer, sampler = np.concatenate(inputs["train_log_probs"]), np.concatenate(inputs["rollout_log_probs"])
    batch = tokens([trainer.tolist()], [sampler.tolist()], [0.0])
    loss = torch.tensor(inputs["pg_loss"])
    truncated = select.truncated_is(batch, floor=params["low"], cap=params["high"])
    agrees(file, (loss * truncated)[0], expected["tis_pg_loss"])
    masked = select.masked_is(batch, low=params["low"], high=params["high"])
    agrees(file, (loss * masked)[0], expected["icepop_pg_loss"])


@vectors("mt_dart_tis_ppo_loss")
def test_a_dual_clip_weighed_by_the_samplers_mismatch_matches(file: str, case: dict[str, Any]) -> None:
    inputs, params = case["inputs"], case["params"]
    old, mask, advantages = inputs["old_log_prob"], inputs["response_mask"], inputs["advantages"]
    batch = tokens(inputs["log_prob"], old, advantages, mask)
    weight = torch.ones_like(batch.logp)
    if inputs["rollout_log_prob"]:  # the trainer's own log-probabilities against the sampler's
        weight = select.truncated_is(tokens(old, inputs["rollout_log_prob"], advantages, mask), cap=params["tis_cap"])
        missing = ~torch.tensor(inputs["rollout_log_prob"]).bool().any(1)
        weight = weight.where(~missing[:, None], torch.ones_like(weight))  # as if it were not recorded
    clipped = surrogate.dual_clip(
        ratio.token(batch), batch, low=params["clip_low"], high=params["clip_high"], cap=params["dual_clip_c"]
    )
    loss = (clipped * weight.detach() * reduce.token_mean(batch.mask.double(), batch.labels)).sum()
    loss.backward()
    agrees(file, loss, case["expected"]["loss"])
    agrees(file, batch.logp.grad, case["expected"]["grad_log_prob"])


@vectors("mt_segment_masked_mean", "roll_segment_mean")
def test_means_over_turns_match(file: str, case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    values, mask = torch.tensor(array(inputs.get("tensor", inputs.get("values")))), torch.tensor(inputs["mask"]).bool()
    found = segments.mean_over_turn(values, mask, labels(mask))
    agrees(file, found, case["expected"].get("segment_mean", case["expected"].get("out")))
