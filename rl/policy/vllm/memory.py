"""How much memory the engine may take beside a trainer, and advice for when there is too little."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from rl.policy.model_config import text_config

GIB = 2**30
MAX_UTILIZATION = 0.9  # of a GPU's memory
TRAINING_HEADROOM = 2 * GIB  # for the activations of a training step, and what CUDA itself takes
CPU_BLOCK_SIZE = 32  # tokens of a cache block on a CPU: the fewest that vLLM's kernels take
OUT_OF_MEMORY = re.compile(r"CUDA (error: )?out of memory", re.IGNORECASE)  # torch's, its drivers', vLLM's allocator's
ADVICE = "less memory: lower --max-tokens, or --groups and --size; or use --engine hf"


class MemoryBudget(NamedTuple):
    """vLLM's options about memory, by its own names, and a description of them for messages."""

    options: dict[str, Any]
    description: str


def shared_budget(
    model: nn.Module,
    slots: int,
    context: int,
    itemsize: int,
    *,
    reserve_bytes: int | None,
    cache_gib: float,
    following: int = 0,
) -> MemoryBudget:
    """Return the budget of an engine on the device of `model`, which it may share with a trainer.

    Args:
        model: The model that is sampled.
        slots: Most sequences at a time.
        context: Most tokens of one sequence.
        itemsize: Bytes of a number in the engine's precision.
        reserve_bytes: GPU memory that a trainer will still take; None for none.
        cache_gib: Most GiB of keys and values on a CPU. One sequence always gets its cache.
        following: Engines that will be started after it on the same GPU, and get as much of it.

    Raises:
        ValueError: Next to nothing of the GPU is left.
    """
    device = next(model.parameters()).device
    cache = _cache_bytes(model, slots, context, itemsize)
    if device.type == "cpu":
        minimum = _cache_bytes(model, 1, context, itemsize)
        size = max(minimum, min(cache, int(cache_gib * GIB)))
        options = {"kv_cache_memory_bytes": size, "block_size": CPU_BLOCK_SIZE}
        return MemoryBudget(options, f"{size / GIB:.2f} GiB of cache")
    free, total = torch.cuda.mem_get_info(device)
    share = gpu_memory_utilization(free, total, reserve_bytes or 0, following)
    description = f"{share:.2f} of {total / GIB:.1f} GiB, of which {free / GIB:.1f} GiB are free"
    return MemoryBudget({"gpu_memory_utilization": share}, description)


def whole_gpu_budget(devices: Sequence[int]) -> MemoryBudget:
    """Return the budget of an engine that has its GPUs to itself."""
    description = f"{MAX_UTILIZATION} of the memory of GPU {' and '.join(map(str, devices))}"
    return MemoryBudget({"gpu_memory_utilization": MAX_UTILIZATION}, description)


def gpu_memory_utilization(free: int, total: int, reserve_bytes: int, following: int = 0) -> float:
    """Return the share of a GPU that vLLM may fill, in hundredths, given its `free` and `total` bytes.

    `reserve_bytes` and `TRAINING_HEADROOM` stay for the trainer, and of the rest an equal share for each of the
    `following` engines. Raises `ValueError` if next to nothing is left.
    """
    share = math.floor(100 * (free - reserve_bytes - TRAINING_HEADROOM) / total / (following + 1)) / 100
    if share < 0.05:
        raise ValueError(
            f"{free / GIB:.1f} GiB of GPU memory are free and training needs "
            f"{(reserve_bytes + TRAINING_HEADROOM) / GIB:.1f} GiB more; nothing is left for vLLM: {ADVICE}"
        )
    return min(share, MAX_UTILIZATION)


@contextmanager
def explain_out_of_memory(activity: str, description: str) -> Iterator[None]:
    """Context that turns an error of too little memory into a `ValueError` that says what to change.

    It is torch's, or that of vLLM's own allocator, which an engine that can sleep uses. `activity` completes "vLLM ran
    out of memory ..."; `description` is that of the budget.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and not OUT_OF_MEMORY.search(str(error)):
            raise
        raise ValueError(f"vLLM ran out of memory {activity} ({description}); {ADVICE}") from error


def head_size(model: nn.Module) -> int:
    """Dimensions of one attention head: the config's `head_dim`, or the hidden size divided by the number of heads."""
    config = text_config(model)
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _cache_bytes(model: nn.Module, slots: int, context: int, itemsize: int) -> int:
    """Bytes of keys and values, in whole blocks, with two more blocks per sequence."""
    config = text_config(model)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    tokens = slots * CPU_BLOCK_SIZE * (math.ceil(context / CPU_BLOCK_SIZE) + 2)
    return 2 * config.num_hidden_layers * heads * head_size(model) * itemsize * tokens
