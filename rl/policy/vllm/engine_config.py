"""The configuration that an engine of vLLM starts with; it can be sent to another process."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from rl.policy import lora
from rl.policy.images.inputs import image_inputs
from rl.policy.images.processor import save_processor
from rl.policy.model_config import text_config
from rl.policy.vllm.memory import MemoryBudget, head_size

MIN_HEAD_SIZE = 32  # of vLLM's CPU kernels


class ImageConfig(NamedTuple):
    """How a model's prompts hold images."""

    processor: tuple[tuple[str, bytes], ...]  # files of the processor and its tokenizer, by name
    token: int  # the token that the vision tower fills
    stand_in: int  # the token to feed the model with where a policy has sampled `token`


class EngineConfig(NamedTuple):
    """A model's architecture and how vLLM computes it."""

    model_config: str  # the Hugging Face config, as JSON
    weight_bytes: int  # of all weights in `dtype`
    slots: int  # most sequences at a time
    context: int  # most tokens of a sequence
    dtype: torch.dtype
    memory: MemoryBudget
    can_sleep: bool = False  # whether the engine can free its memory for a while; no CPU build can
    tensor_parallel_size: int = 1  # devices that share every layer (Shoeybi et al. 2019)
    lora_rank: int = 0  # largest rank of adapters that are served beside the weights; 0 if merged, or none
    lora_targets: tuple[str, ...] = ()  # last names of the layers with adapters
    lora_tower: str = ""  # a layer with an adapter that is none of the language model's, such as the vision tower's
    draws: str = "keyed"  # or "native": by `rl.policy.vllm.sampler`, or by vLLM's own sampler
    shares_memory: bool = False  # whether a process of its own can read the trainer's weights where they are
    images: ImageConfig | None = None  # None for a model that reads text only


def make_engine_config(
    model: nn.Module, *, slots: int, context: int, dtype: torch.dtype, memory: MemoryBudget, **options: Any
) -> EngineConfig:
    """Return the configuration for `model` and its adapters; `options` are further fields of `EngineConfig`.

    Raises `ValueError` if vLLM's CPU kernels cannot compute the model.
    """
    if memory.options.get("block_size") and head_size(model) < MIN_HEAD_SIZE:
        raise ValueError(
            f"heads of size {head_size(model)}: vLLM on a CPU takes {MIN_HEAD_SIZE} or more; use --engine hf"
        )
    images = image_inputs(model)
    config: Any = deepcopy(text_config(model) if images is None else model.config)
    config.architectures = [type(model).__name__]
    size = sum(weight.numel() for weight in model.parameters()) * dtype.itemsize
    rank, targets = lora.rank_and_targets(model)
    return EngineConfig(
        config.to_json_string(),
        size,
        slots,
        context,
        dtype,
        memory,
        lora_rank=rank,
        lora_targets=targets,
        lora_tower="" if images is None else _adapter_beside_language_model(model),
        images=None if images is None else ImageConfig(_files(images.processor), images.token, images.stand_in),
        **options,
    )


def _adapter_beside_language_model(model: Any) -> str:
    """The first layer with an adapter that is none of the language model's; "" if there is none."""
    layers = {id(layer) for layer in model.get_decoder().modules()}
    return next((name for name, layer in lora.adapter_layers(model) if id(layer) not in layers), "")


def _files(processor: Any) -> tuple[tuple[str, bytes], ...]:
    """The files that a processor and its tokenizer are read from, by name."""
    with tempfile.TemporaryDirectory(prefix="turnwise-") as folder:
        processor.tokenizer.save_pretrained(folder)
        save_processor(processor, Path(folder))
        return tuple((path.name, path.read_bytes()) for path in sorted(Path(folder).iterdir()))
