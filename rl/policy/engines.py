"""Sampling engines by the name that `--engine` gives them."""

from __future__ import annotations

from torch import nn

from rl import engine_choice
from rl.policy.batching import Batching


def engine(
    name: str,
    model: nn.Module,
    *,
    slots: int = 256,
    context: int | None = None,
    training: bool = False,
    devices: str = "",
) -> Batching:
    """Start the engine `hf`, `vllm` or `vllm:process` on `model`; `training` says that a trainer shares its device.

    `devices` are the CUDA devices of an engine in a process of its own, as 1,2; it has the model's unless named.
    Raise `ValueError`, in one line, where the engine is missing or cannot sample this model.
    """
    numbers = engine_choice.devices(name, devices)
    if name.startswith("vllm"):
        from rl.policy.vllm.policy import VLLMPolicy  # many have none

        apart = name == engine_choice.APART
        return VLLMPolicy(model, slots=slots, context=context, training=training, apart=apart, devices=numbers)
    from rl.policy.hf import HFPolicy

    return HFPolicy(model, slots=slots, context=context)
