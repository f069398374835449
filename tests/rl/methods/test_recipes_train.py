"""Every recipe trains: a few updates of a toy through the command line, also from stale samples and resumed."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rl.methods.recipe import catalogue, load
from rl.train.run_folder import RunFolder
from tests.support.runs import assert_same_run, flags, metrics, rollouts, small_model, train, train_run, weights

NAMES = [name for name, _ in catalogue()]
FOLLOWERS = (
    "otr",
    "pivotrl",
    "ui_s1",
)  # of an oracle, whom an untrained model follows only where most words do the same
SINGLES = ("mssr",)  # which play one episode per task
# One recipe for each kind of state that a checkpoint holds: of credit, score and strategy parts, and steps of their own.
STATEFUL = (
    *("archer", "bapo", "digiq", "pa_rl", "mssr", "rlep", "spiral", "v05", "vcpo"),
    *(
        "dart",
        "dots",
        "gdro_prompts",
        "gdro_rollouts",
        "greso",
        "pope",
        "remix",
        "swarm",
        "vade",
        "vcrl",
        "xrpo",
        "sfpo",
        "spec_rl",
        "arrol",
    ),
)


def words(name: str, **settings: object) -> list[str]:
    sizes = {"size": 1, "groups": 8} if name in SINGLES else {}
    return flags("Steps" if name in FOLLOWERS else "Talk", algo=name, **sizes, **settings)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_trains_with_finite_numbers_and_moves_the_weights(name: str, tmp_path: Path) -> None:
    out = train_run(*words(name, updates=2), out=tmp_path / "run")
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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in STATEFUL else pytest.mark.slow) for name in NAMES]
)
def test_a_recipe_learns_from_stale_samples_and_resumes_bit_for_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that is resumed is a copy of the whole one, made when a checkpoint was complete, as a kill leaves it."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    save_checkpoint = RunFolder.save_checkpoint

    def save_and_copy(folder: RunFolder, update: int, *more: Any) -> None:
        save_checkpoint(folder, update, *more)
        if update == 2:
            shutil.copytree(whole, parts, symlinks=True)

    with monkeypatch.context() as changes:
        changes.setattr(RunFolder, "save_checkpoint", save_and_copy)
        train_run(*words(name, updates=3, lag=2, save_every=2), out=whole)
    assert len(metrics(parts)) == 2
    resumed = train("--resume", "--out", str(parts))
    assert resumed.code == 0, resumed.err
    assert_same_run(whole, parts)
    assert metrics(whole)[-1]["lag/max"] > 0


def test_recipes_with_state_are_among_those_that_are_always_resumed() -> None:
    assert {name for name in NAMES if load(name).state_dict()} <= {*STATEFUL}
