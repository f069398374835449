"""The memory of a GPU that an engine leaves to training: what lasts, and during overlapping updates what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl.policy.registry import open_engine
from rl.train.memory.estimate import Estimate, engine_reserve, training_state_bytes
from rl.train.seats import trainees
from tests.support.models import model
from tests.support.runs import flags, train, train_run

MEMORY = Estimate(1, 2, 3, reference=400, sampler=5, cache=6, activations=7000, vision=800, logits=90_000)


def test_an_engine_leaves_what_lasts_and_what_overlapping_updates_need() -> None:
    net = model()
    weights, state = sum(weight.nbytes for weight in net.parameters()), training_state_bytes(net)
    phases = {"has_scores": False, "is_overlapping": False}
    alone = engine_reserve(net, MEMORY, policies=1, others=0, **phases)
    assert alone == state + 400
    scored = engine_reserve(net, MEMORY, policies=1, others=0, has_scores=True, is_overlapping=False)
    assert scored == alone + 90_000
    for has_scores in (False, True):
        overlapping = engine_reserve(net, MEMORY, policies=1, others=0, has_scores=has_scores, is_overlapping=True)
        assert overlapping == alone + 97_800
    assert engine_reserve(net, MEMORY, policies=2, others=1, **phases) == 2 * (state + 200) + weights
    assert engine_reserve(net, MEMORY, policies=2, others=0, **phases) == state + 200


@pytest.fixture
def reserves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What engines of runs are told to leave."""
    found: list[int] = []

    def open_one(*args: Any, reserve_bytes: int, **options: Any) -> Any:
        found.append(reserve_bytes)
        return open_engine(*args, reserve_bytes=reserve_bytes, **options)

    monkeypatch.setattr(trainees, "open_engine", open_one)
    return found


def test_a_run_tells_its_engine(reserves: list[int], tmp_path: Path) -> None:
    ways = [(), ("--penalty", "kl_k3"), ("--lag", "1", "--overlap")]
    for number, more in enumerate(ways):
        train_run(*flags("Low", *more, updates=1), out=tmp_path / str(number))
    plain, with_reference, overlapping = reserves
    assert plain < with_reference < overlapping


def test_a_dry_run_tells_it_too(reserves: list[int]) -> None:
    assert train(*flags("Low", "--lag", "1", "--overlap"), "--dry-run").code == 0
    assert len(reserves) == 1
