"""What happens within an update: its passes, against other trainers' numbers."""

from __future__ import annotations

from typing import Any

import pytest

from rl.methods import recipe as recipes
from rl.methods.estimators.statistics import last_score
from rl.methods.parts import passes
from tests.rl.methods.test_passes import Quadratic, run
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
