"""The estimate of memory counts every copy of weights: pinned versions, past weights, and opponents' models."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rl.policy import lora
from rl.policy.hf import HFPolicy
from rl.policy.pool.pinned import PinnedEngine
from rl.policy.weight_copies import copy_model
from rl.train.memory.estimate import estimate, frozen_bytes
from rl.train.memory.workload import Workload
from tests.support.models import model
from tests.support.runs import flags, small_model, train

FAMILIES = ["qwen2", "llama", "gemma3_text"]
KUHN = "multi/Kuhn-v0"


def tensors(part: Any) -> list[Tensor]:
    """All tensors of an engine's forward pass."""
    if isinstance(part, Tensor):
        return [part]
    return [one for item in part for one in tensors(item)] if isinstance(part, tuple) else []


def bytes_of(engines: list[HFPolicy], but: nn.Module | None = None) -> int:
    """Bytes of the weights that engines sample from, and of their full caches, without the weights of a model."""
    storages: dict[int, Tensor] = {}
    for engine in engines:
        engine.cache.reserve(engine.slots, engine.context)
        weights = getattr(engine.forward, "weights", ())
        own = [
            *tensors(weights),
            *engine.model.parameters(),
            *getattr(engine.forward, "model", nn.Module()).parameters(),
        ]
        storages |= {one.untyped_storage()._cdata: one for one in [*own, engine.cache.kv]}
    known = {one.untyped_storage()._cdata for one in but.parameters()} if but is not None else set()
    return sum(one.nbytes for key, one in storages.items() if key not in known)


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", FAMILIES)
def test_each_pinned_version_has_a_copy_and_a_cache(kind: str, rank: int) -> None:
    net = model(kind)
    if rank:
        lora.attach(net, rank, alpha=8)
    engines = [HFPolicy(net, slots=3, context=64) for _ in range(3)]
    PinnedEngine(engines)
    result = estimate(net, Workload(64, 64, slots=3, rank=rank, versions=3))
    assert result.sampler + result.cache == bytes_of(engines, net)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_model_that_only_plays_is_counted_with_its_cache(kind: str, dtype: torch.dtype) -> None:
    net = model(kind).to(dtype).requires_grad_(False)
    engine = HFPolicy(net, slots=5, context=64)
    assert frozen_bytes(net, 64, 5) == pytest.approx(
        bytes_of([engine]), rel=0.01
    )  # but for biases of fused projections


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", FAMILIES)
def test_past_weights_are_counted_with_their_caches(kind: str, rank: int) -> None:
    net = model(kind)
    if rank:
        lora.attach(net, rank, alpha=8)
    engines = [HFPolicy(copy_model(net), slots=3, context=64) for _ in range(2)]
    work = Workload(64, 64, slots=3, rank=rank, past=2, other_models=1000)
    assert estimate(net, work).other_models == pytest.approx(1000 + bytes_of(engines, net), rel=0.02)


def dry_run(*words: str) -> dict[str, float]:
    """The parts of a dry run's estimate in MiB, by name; `total` is their sum."""
    result = train(*words, "--dry-run")
    assert result.code == 0, result.err
    line = re.search(r"memory, about ([\d.]+) MiB: (.*)", result.out)
    assert line is not None
    parts = (part.rsplit(" ", 2) for part in line[2].split(", "))
    return {"total": float(line[1])} | {name: float(size) for name, size, _ in parts}


def test_a_dry_run_counts_pinned_versions() -> None:
    one = dry_run(*flags("games/GuessNumber-v0", lag=3, groups=32))
    pinned = dry_run(*flags("games/GuessNumber-v0", lag=3, groups=32, in_flight="pin"))
    for name in ("sampler", "cache"):
        assert pinned[name] == pytest.approx(4 * one[name], abs=0.3), name
    assert pinned["total"] - one["total"] == pytest.approx(3 * (one["sampler"] + one["cache"]), abs=0.5)


def test_a_dry_run_counts_opponents() -> None:
    alone = dry_run(*flags(KUHN, groups=32))
    other = dry_run(*flags(KUHN, groups=32, opponent=small_model()))
    script = dry_run(*flags(KUHN, groups=32, opponent="random"))
    one, two = (dry_run(*flags(KUHN, groups=32, updates=5, opponent=f"pool:every={n}")) for n in (10, 5))
    assert "other models" not in alone and "other models" not in script
    assert other["other models"] > other["weights"]
    assert (
        two["other models"] == pytest.approx(2 * one["other models"], abs=0.2) and one["other models"] > one["weights"]
    )
