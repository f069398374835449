"""What an update measures of itself."""

from __future__ import annotations

from typing import Any

import pytest

from rl.learner import batch
from rl.learner.diagnostics import Diagnostics, list_warnings
from rl.learner.packing import Columns
from rl.methods.parts import strategy
from rl.methods.recipe import load
from rl.records import Group
from tests.support.batches import make_tokens
from tests.support.walk import Script, Walk, make_walk_runner, play_strategy


def measured(group: Group, shift: float) -> dict[str, float]:
    """The metrics of a step whose log-probabilities differ from the records by `shift`."""
    rows: Any = batch.build_rows([group], load("grpo"))
    columns = Columns(rows, "cpu")
    old = columns.pad(lambda row: row.old)
    tokens = make_tokens((old + shift).tolist(), old.tolist(), [0.0] * len(rows), labels=columns.labels())
    seen = Diagnostics()
    seen.add(tokens, old.sum())
    seen.end_step(1.0)
    return seen.means()


def test_demonstrations_have_no_mismatch_of_sampler_and_trainer() -> None:
    """Their tokens were not sampled, and stand in the records with a log-probability of 0."""
    group = play_strategy(strategy.recorded, make_walk_runner(Walk, Script()))
    assert [one.player for one in group.trajectories] == ["oracle"]
    metrics = measured(group, -2.0)
    assert metrics["kl/sampler_trainer"] == 0.0 and list_warnings(metrics, lag=0) == []

    group.trajectories[0].player = ""  # the same tokens, sampled by the policy
    metrics = measured(group, -2.0)
    assert metrics["kl/sampler_trainer"] == pytest.approx(1.135, abs=1e-3)  # exp(-2) - 1 + 2
    assert [line.partition(" (")[0] for line in list_warnings(metrics, lag=0)] == ["sampler and trainer disagree"]
