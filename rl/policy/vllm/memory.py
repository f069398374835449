"""How much memory the engine may take beside a trainer, and words for when there is too little."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from rl.policy.forward import text_config

GIB = 2**30
MOST = 0.9  # of a GPU's memory
ROOM = 2 * GIB  # for the activations of a training step, and what CUDA itself takes
BLOCK = 32  # tokens of a cache block on a CPU: the fewest that vLLM's kernels take
ADVICE = "less memory: lower --max-tokens, or --groups and --size; or use --engine hf"


class Room(NamedTuple):
    """What vLLM is told of memory (its own names), and the same in words."""

    options: dict[str, Any]
    words: str


def room(
    model: nn.Module, slots: int, context: int, itemsize: int, *, reserve_bytes: int | None, cache_gib: float
) -> Room:
    """Memory for an engine of `slots` sequences of `context` tokens, beside `model`, which it may share a GPU with."""
    device = next(model.parameters()).device
    cache = _cache(model, slots, context, itemsize)
    if device.type == "cpu":
        least = _cache(model, 1, context, itemsize)
        size = max(least, min(cache, int(cache_gib * GIB)))
        return Room({"kv_cache_memory_bytes": size, "block_size": BLOCK}, f"{size / GIB:.2f} GiB of cache")
    free, total = torch.cuda.mem_get_info(device)
    share = utilisation(free, total, reserve_bytes or 0)
    words = f"{share:.2f} of {total / GIB:.1f} GiB, of which {free / GIB:.1f} GiB are free"
    return Room({"gpu_memory_utilization": share}, words)


def whole(devices: Sequence[int]) -> Room:
    """Memory for an engine that shares its GPUs with nobody."""
    return Room({"gpu_memory_utilization": MOST}, f"{MOST} of the memory of GPU {' and '.join(map(str, devices))}")


def utilisation(free: int, total: int, kept: int) -> float:
    """The share of a GPU that vLLM may fill, in hundredths, so that `kept` bytes and some room stay for the trainer.

    Raises `ValueError` where next to nothing is left.
    """
    share = math.floor(100 * (free - kept - ROOM) / total) / 100
    if share < 0.05:
        raise ValueError(
            f"{free / GIB:.1f} GiB of GPU memory are free and training needs {(kept + ROOM) / GIB:.1f} GiB more; "
            f"nothing is left for vLLM: {ADVICE}"
        )
    return min(share, MOST)


@contextmanager
def advised(doing: str, words: str) -> Iterator[None]:
    """Turn running out of memory into a `ValueError` that says what to change."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise ValueError(f"vLLM ran out of memory {doing} ({words}); {ADVICE}") from error


def head_size(model: nn.Module) -> int:
    """Of one attention head."""
    config = text_config(model)
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _cache(model: nn.Module, slots: int, context: int, itemsize: int) -> int:
    """Bytes of keys and values, in whole blocks, with one more per sequence."""
    config = text_config(model)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    tokens = slots * BLOCK * (math.ceil(context / BLOCK) + 2)
    return 2 * config.num_hidden_layers * heads * head_size(model) * itemsize * tokens
