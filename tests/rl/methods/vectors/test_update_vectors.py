"""What is stale when an update begins, and what happens within it, against other trainers' numbers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import torch

from rl.methods import recipe as recipes
from rl.methods import streams
from rl.methods.estimators.statistics import last_score
from rl.methods.parts import passes, ratio, select
from rl.train.progress import capacity
from tests.rl.methods.updates.test_passes import Quadratic, run
from tests.support.batches import ToyScorer, make_group, make_tokens, make_trajectory
from tests.support.vector_cases import agrees, vectors


@vectors("sfpo_reposition")
def test_sfpo_steps_back_and_stops_where_entropy_jumps(file: str, case: dict[str, Any]) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    assert isinstance(recipes.load("sfpo").passes, passes.slow_fast)
    if params.get("kind") == "stop":
        part = passes.slow_fast(window=params["window"], threshold=params["z_threshold"])
        weights = Quadratic({"theta0": [1.0], "curvature": [1.0], "optimum": [0.0]})
        counts = []
        for entropy in (*inputs["entropy"], 0.0):
            weights.entropy = lambda: entropy  # type: ignore[method-assign]  # noqa: B023 - called within the pass
            counts.append(len(run(part, weights, 0.1)) // 2)
        assert counts == [4] * len(inputs["entropy"]) + [1 if expected["stop"] else 4]  # one more update shows it
        assert last_score(inputs["entropy"]) == pytest.approx(expected["z"], abs=1e-6)
        return
    part, weights = passes.slow_fast(fast=params["K"], alpha=params["alpha"]), Quadratic(inputs)
    seen = run(part, weights, params["lr"])
    agrees(file, weights.weights, expected["after_slow"])
    if params["alpha"]:
        agrees(file, seen[-2], expected["repositioned"])
        for number, fast in enumerate(expected["fast"][1:]):
            agrees(file, seen[2 * number + 1], fast)


@vectors("areal_prox_and_staleness")
def test_the_policy_before_the_update_is_guessed_and_groups_are_admitted_as_areal_does(
    file: str, case: dict[str, Any]
) -> None:
    inputs, params, expected = case["inputs"], case["params"], case["expected"]
    if "capacity" in expected:
        limits = {"lag": params["max_staleness"], "groups": params["batch_size"]}
        counts = {"usable": inputs["accepted"], "running": inputs["running"]}
        assert (
            capacity(update=inputs["version"], concurrency=params["max_concurrent"], **counts, **limits)
            == expected["capacity"]
        )
        assert capacity(update=0, usable=0, running=0, **limits) == expected["pending_limit"]
        return
    recipe, scorer = recipes.load("areal"), ToyScorer()
    scorer.version = params["current_version"] - 1
    group = make_group(*(make_trajectory((len(row), 0.0)) for row in inputs["versions"]))
    for member, versions in zip(group.trajectories, inputs["versions"], strict=True):
        member.turns[0].completion = replace(member.turns[0].completion, versions=tuple(versions))
    (fill,) = streams.score_parts(recipe)
    asyncio.run(fill(scorer, [group]))
    staleness = [list(member.turns[0].streams["staleness"]) for member in group.trajectories]
    staleness = [
        [0.0 if version < 0 else share for version, share in zip(*pair, strict=True)]  # tokens that nobody sampled
        for pair in zip(inputs["versions"], staleness, strict=True)
    ]
    zeros = [[0.0] * len(row) for row in staleness]
    batch = make_tokens(inputs["logp"], inputs["behave_logp"], zeros, streams={"staleness": torch.tensor(staleness)})
    for kind, name in (("log", "loglinear"), ("linear", "linear"), ("sampler", "rollout")):
        log_ratio = ratio.interpolated(batch, kind=kind)
        agrees(file, batch.logp - log_ratio, expected[name])
        if kind != "sampler":
            weight = select.interpolated_tis(batch, cap=1e9, kind=kind)
            agrees(file, weight, (torch.tensor(expected[name]) - batch.old).exp())
