"""Opening a pool by the name of its engines."""

from __future__ import annotations

from torch import nn

from rl.policy.pool.devices import check_devices
from rl.policy.pool.messages import EngineOptions
from rl.policy.pool.pool import EnginePool
from rl.policy.registry import DRAWS, SEPARATE_PROCESS, check_engines
from rl.processes.host import open_host


def open_pool(
    name: str,
    model: nn.Module,
    count: int,
    *,
    slots: int,
    context: int | None,
    devices: str,
    dtype: str,
    is_trained: bool,
    cluster: str = "",
) -> EnginePool:
    """Start `count` engines; the arguments are those of `rl.policy.registry.open_engine`.

    Raises `ValueError` for devices that they cannot have, and as `EnginePool`.
    """
    check_engines(name, devices, count)
    device = next(model.parameters()).device
    lists = check_devices(devices, device)
    if name.startswith("vllm"):
        if device.type != "cpu" and not lists and not cluster:
            example = ";".join(str(number + 1) for number in range(count))
            raise ValueError(
                f"--engines {count}: each engine of vLLM needs a GPU; add one list for each, as "
                f"--engine-devices {example}"
            )
        draws = name.rpartition(":")[2] if name.endswith(DRAWS) else ""
        draws = draws or ("native" if device.type != "cpu" and is_trained else "keyed")
        kind = SEPARATE_PROCESS if any("," in one for one in lists) else "vllm"  # each has a process anyway
        name = f"{kind}:{draws}"
    options = EngineOptions(name, slots, context, "", dtype, str(device))
    return EnginePool(model, options, count, devices=lists, host=open_host(cluster))
