"""Sampling engines by the name that `--engine` gives them. Importing this module does not import torch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from rl.policy.batching import Batching

ENGINES = ("hf", "vllm", "vllm:process")
SEPARATE_PROCESS = "vllm:process"


def device_list(text: str) -> str:
    """Parse a flag that lists CUDA devices, such as `1,2`; return it without blanks.

    Raises `argparse.ArgumentTypeError` for anything but distinct numbers.
    """
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isascii() and word.isdigit() for word in words):
        raise argparse.ArgumentTypeError("must be numbers of CUDA devices such as 1,2")
    if len({int(word) for word in words}) < len(words):
        raise argparse.ArgumentTypeError("names a device twice")
    return ",".join(words)


def engine_devices(engine: str, listed: str) -> tuple[int, ...]:
    """Return the CUDA devices in `listed`. Raises `ValueError` for an engine that takes no devices of its own."""
    if listed and engine != SEPARATE_PROCESS:
        raise ValueError(
            f"--engine-devices {listed}: only an engine of its own process has them; add --engine {SEPARATE_PROCESS}"
        )
    return tuple(int(word) for word in listed.split(",") if word)


def open_engine(
    name: str,
    model: nn.Module,
    *,
    slots: int = 256,
    context: int | None = None,
    reserve_bytes: int | None = None,
    devices: str = "",
) -> Batching:
    """Start the engine `hf`, `vllm` or `vllm:process` on `model`.

    `slots` is the number of sequences sampled at a time, `context` the most tokens of one. `reserve_bytes` is
    the memory that a trainer will still take on the model's device; None means that nothing is trained. `devices` lists
    the CUDA devices of an engine in a process of its own, such as `1,2` (default: the model's).

    Raises `ValueError`, in one line, if the engine is not installed or cannot sample this model.
    """
    numbers = engine_devices(name, devices)
    if name.startswith("vllm"):
        from rl.policy.vllm.policy import VLLMPolicy

        return VLLMPolicy(
            model,
            slots=slots,
            context=context,
            reserve_bytes=reserve_bytes,
            apart=name == SEPARATE_PROCESS,
            devices=numbers,
        )
    from rl.policy.hf import HFPolicy

    return HFPolicy(model, slots=slots, context=context)
