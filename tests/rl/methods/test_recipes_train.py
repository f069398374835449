"""Every recipe trains: two updates of a toy through the command line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rl.methods.recipe import catalogue
from tests.support.runs import flags, metrics, rollouts, small_model, train_run, weights

FOLLOWERS = ("pivotrl", "ui_s1")  # of an oracle, whom an untrained model follows only where most words do the same


@pytest.mark.parametrize("name", [name for name, _ in catalogue()])
def test_a_recipe_trains_with_finite_numbers_and_moves_the_weights(name: str, tmp_path: Path) -> None:
    out = train_run(*flags("Steps" if name in FOLLOWERS else "Talk", algo=name, updates=2), out=tmp_path / "run")
    first, second = metrics(out)
    for line in (first, second):
        assert all(isinstance(value, (int, float)) and math.isfinite(value) for value in line.values())
        assert line["grad_norm"] > 0
        assert line["tokens/trained"] > 0
    begun, ended = load_file(Path(small_model()) / "model.safetensors"), weights(out)
    assert any(not torch.equal(begun[key], ended[key]) for key in begun)
    credits = [x for line in rollouts(out, 1) for turn in line["turns"] for x in turn.get("advantage", ())]
    assert any(credits)
    assert all(map(math.isfinite, credits))
