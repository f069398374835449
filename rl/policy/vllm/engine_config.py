"""What an engine of vLLM is started with, in words that another process can be told."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import nn

from rl.policy import lora
from rl.policy.forward import text_config
from rl.policy.vllm.memory import Room, head_size

SMALLEST_HEAD = 32  # of vLLM's CPU kernels


class Plan(NamedTuple):
    """An architecture and its engine: `config` is the model's, as JSON, and `size` that of its weights in bytes.

    One that `sleeps` can give its memory back for a while, which no CPU build does. `parallel` is the number of
    devices that share every layer (tensor parallelism, Shoeybi et al. 2019). Adapters of at most `rank` are served
    beside the weights, on layers whose names end with one of `targets`; merged, or none, where the rank is 0.
    """

    config: str
    size: int
    slots: int
    context: int
    dtype: torch.dtype
    room: Room
    sleeps: bool = False
    parallel: int = 1
    rank: int = 0
    targets: tuple[str, ...] = ()


def plan(model: nn.Module, *, slots: int, context: int, dtype: torch.dtype, room: Room, **more: Any) -> Plan:
    """A plan for `model`. Raises `ValueError`, in one line, where vLLM's kernels cannot compute it."""
    if room.options.get("block_size") and head_size(model) < SMALLEST_HEAD:
        raise ValueError(
            f"heads of size {head_size(model)}: vLLM on a CPU takes {SMALLEST_HEAD} or more; use --engine hf"
        )
    config: Any = deepcopy(text_config(model))
    config.architectures = [type(model).__name__]
    size = sum(weight.numel() for weight in model.parameters()) * dtype.itemsize
    rank, targets = lora.extent(model)
    return Plan(config.to_json_string(), size, slots, context, dtype, room, rank=rank, targets=targets, **more)
