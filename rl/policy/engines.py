"""Sampling engines by the name that `--engine` gives them."""

from __future__ import annotations

from torch import nn

from rl.policy.batching import Batching


def engine(
    name: str, model: nn.Module, *, slots: int = 256, context: int | None = None, training: bool = False
) -> Batching:
    """Start the engine `hf` or `vllm` on `model`; `training` says that a trainer shares its device.

    Raise `ValueError`, in one line, where the engine is missing or cannot sample this model.
    """
    if name == "vllm":
        from rl.policy.vllm.policy import VLLMPolicy  # vLLM takes seconds to import, and many have none

        return VLLMPolicy(model, slots=slots, context=context, training=training)
    from rl.policy.hf import HFPolicy

    return HFPolicy(model, slots=slots, context=context)
