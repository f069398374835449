"""How much memory the keys and values of the engine hf may take: on a GPU a share of what nothing else needs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rl.policy import kv_cache
from rl.policy.hf import HFPolicy
from rl.policy.registry import open_engine
from rl.train.memory.estimate import estimate
from rl.train.memory.report import MemoryReport
from rl.train.memory.workload import Workload
from rl.train.seats import trainees
from tests.support.models import model
from tests.support.runs import flags, train_run

GIB = 2**30


def cache_limit(work: Workload, free: int | None) -> int:
    return MemoryReport(model(), work, free, recompute=False, is_resumed=False).work.cache_limit


def test_it_is_half_of_what_is_left_of_a_gpu() -> None:
    work = Workload(microbatch_tokens=1024, context=64, slots=8)
    rest = 60 * GIB - estimate(model(), work).total
    assert cache_limit(work, 60 * GIB) == 4 * GIB + rest // 2
    several = Workload(microbatch_tokens=1024, context=64, slots=8, versions=3, policies=2, past=4)
    rest = 60 * GIB - estimate(model(), several).total
    assert cache_limit(several, 60 * GIB) == 4 * GIB + rest // 2 // 10


@pytest.mark.parametrize(("slots", "free"), [(8, None), (8, 2**10), (0, 60 * GIB)], ids=["CPU", "full GPU", "vLLM"])
def test_it_stays_at_its_default(slots: int, free: int | None) -> None:
    assert cache_limit(Workload(microbatch_tokens=1024, context=64, slots=slots), free) == 4 * GIB


def test_the_estimate_counts_it() -> None:
    net, work = model(), Workload(microbatch_tokens=256, context=10_000, slots=1_000_000)
    report = MemoryReport(net, work, 60 * GIB, recompute=False, is_resumed=False)
    assert report.estimate.cache == report.work.cache_limit > 25 * GIB
    assert report.estimate.total < 60 * GIB


def test_a_run_opens_its_engine_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def open_one(*args: Any, cache_bytes: int | None, **options: Any) -> Any:
        found.append(cache_bytes)
        return open_engine(*args, cache_bytes=cache_bytes, **options)

    monkeypatch.setattr(trainees, "open_engine", open_one)
    for number, free in enumerate((None, 40 * GIB)):
        monkeypatch.setattr("rl.train.session.free_bytes", lambda device, free=free: free)
        train_run(*flags("Low", updates=1), out=tmp_path / str(number))
    assert found[0] == 4 * GIB and 20 * GIB < found[1] < 24 * GIB


def test_an_engine_holds_as_many_sequences_as_fit_into_it() -> None:
    net = model()  # 2 layers, 2 key-value heads of 8 numbers in float32: 256 bytes a token
    engine = open_engine("hf", net, slots=1000, context=128, cache_bytes=256 * 128 * 2)
    assert isinstance(engine, HFPolicy)
    assert engine.cache.tokens == 256 and engine.slots == 16  # most are an eighth as long
    engine.close()
    with pytest.raises(ValueError, match=r"one sequence of 128 tokens .* --max-tokens 127 fits"):
        open_engine("hf", net, slots=1000, context=128, cache_bytes=256 * 128 - 1)


def test_a_model_that_is_not_trained_has_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kv_cache.quarter_of_gpu(torch.device("cpu")) is None
    for free, size in ((80 * GIB, 20 * GIB), (10 * GIB, 4 * GIB)):
        cuda = SimpleNamespace(mem_get_info=lambda device, free=free: (free, 141 * GIB))
        monkeypatch.setattr(torch, "cuda", cuda)
        assert kv_cache.quarter_of_gpu(torch.device("cuda")) == size
