"""ECHO's weights, clips, forks and cuts against its authors' numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from rl.learner.loss import step_streams
from rl.methods import recipe as recipes
from rl.methods.estimators.tasks import uncertainty
from rl.methods.parts import step
from tests.support.batches import make_tokens
from tests.support.vector_cases import agrees, array, vectors


@vectors("echo_branch_prune")
def test_replies_are_forked_and_cut_where_echo_does(file: str, case: dict[str, Any]) -> None:
    params, expected = case["params"], case["expected"]
    logprobs = np.log(array(case["inputs"]["topk_probs"])).tolist()
    signals = uncertainty.signals(logprobs, "released")
    for name in ("entropy", "group", "tail"):
        agrees(file, getattr(signals, name), expected[name])
    agrees(file, signals.rise, expected["delta_entropy"])
    names = {
        "entropy_high": "entropy",
        "entropy_low": "low",
        "branch_threshold": "group",
        "entropy_delta_threshold": "rise",
        "delta_upper": "cut_rise",
        "delta_rise_steps": "cut_steps",
    }
    limits = uncertainty.Limits(**{names[key]: value for key, value in params.items()})
    branch, cut = uncertainty.branch_point(signals, limits), uncertainty.cut_point(signals, limits)
    if expected["branch"] is None:
        assert branch is None
    else:
        assert branch == (expected["branch"]["position"], expected["branch"]["width"])
    assert (cut is not None, *(cut or (None, None))) == tuple(
        expected["prune"][key] for key in ("flag", "pos", "reason")
    )


@vectors("echo_hybrid_shaping")
def test_uncertain_tokens_weigh_more_and_a_sure_end_narrows_the_clip(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    logp = np.log(array(inputs["confidence"]))
    mask = array(inputs["response_mask"])
    entropy = torch.tensor(inputs["entropy"], dtype=torch.float64)
    batch = make_tokens(logp.tolist(), logp.tolist(), inputs["advantages"], mask.tolist(), entropy=entropy)
    shaping = partial(
        step.hybrid_shaping,
        alpha=params["alpha"],
        beta=params["beta"],
        bound=float("inf") if params["s_max"] is None else params["s_max"],
        factor=params["mult_coeff"],
        tail=params["tail_window"],
        least=params["eps_min"],
        most=params["eps_max"],
        kappa=params["kappa"],
    )
    with torch.no_grad():
        streams, _ = step_streams(batch, recipes.load("echo").but(step=(shaping,)))
    agrees(file, batch.adv * streams["weight"] * batch.mask, array(expected["advantages"]) * mask)
    agrees(file, streams["high"][:, 0] - 1, expected["clip_epsilon"])
    agrees(file, 1 - streams["low"][:, 0], expected["clip_epsilon"])
