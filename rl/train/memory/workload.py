"""What a run does with its model, as far as memory depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from rl.policy import lora
from rl.policy.registry import torch_name
from rl.settings import Settings
from rl.train.memory.vision import image_tokens

FLOAT_BYTES = 4  # of a gradient, a moment or a logit, whatever the precision of the weights


@dataclass(frozen=True)
class Workload:
    """What a run does with its model, as far as memory depends on it.

    Attributes:
        microbatch_tokens: Tokens of one forward pass.
        context: Tokens of one sequence.
        prompt: Tokens of the prompt that the members of a group share, part of `context`.
        size: Episodes per group.
        slots: Sequences that the hf engine samples at a time; 0 for an engine with memory of its own.
        itemsize: Bytes of one weight.
        sampler_itemsize: Bytes of one weight of an hf engine of another precision; 0 for one that shares the model's.
        rank: Rank of the adapters; 0 if the weights are trained.
        targets: Layers with adapters, as `--lora-targets`.
        recompute: Whether blocks are recomputed in the backward pass.
        reference: Whether there is a frozen reference policy.
        cold_start: Whether a cold start comes first. It trains every weight, also below adapters.
        policies: Policies that are trained, each with weights or adapters of its own.
        shards: Processes that train the model together and keep a part each of all but the sampler's weights.
        images: Tokens of one sequence that a vision tower fills.
        versions: Versions of the weights that are sampled at a time, each from a copy and a cache of its own.
        past: Frozen copies of the policy that play other seats, each with a cache.
        other_models: Bytes of the other models that play seats or judge (`frozen_bytes`).
        on_gpu: Whether the model is trained on a GPU, whose kernels keep other tensors.

    """

    microbatch_tokens: int
    context: int
    prompt: int = 1
    size: int = 1
    slots: int = 0
    itemsize: int = FLOAT_BYTES
    sampler_itemsize: int = 0
    rank: int = 0
    targets: str = lora.ALL
    recompute: bool = False
    reference: bool = False
    cold_start: bool = False
    policies: int = 1
    shards: int = 1
    images: int = 0
    versions: int = 1
    past: int = 0
    other_models: int = 0
    on_gpu: bool = False


def workload(
    settings: Settings,
    model: nn.Module,
    opening: Sequence[int],
    slots: int,
    *,
    reference: bool,
    is_new: bool = True,
    policies: int = 1,
    turns: int = 1,
    past: int = 0,
    other_models: int = 0,
    on_gpu: bool = False,
) -> Workload:
    """Return what a run with these settings does with its model, as far as memory depends on it.

    Args:
        settings: Settings with all defaults filled in.
        model: The model that is trained.
        opening: Token ids of an episode's first prompt.
        slots: Sequences sampled at a time; not used for an engine other than `hf`.
        reference: Whether the recipe needs a frozen reference policy.
        is_new: False for a run that is resumed after its cold start.
        policies: Policies that are trained.
        turns: Turns of an episode. Each is taken to show as many images as the first prompt, while there is room.
        past: Copies of past weights that play other seats.
        other_models: Bytes of the other models that play seats or judge.
        on_gpu: Whether the model is trained on a GPU.

    """
    sampler_dtype = settings.engine_dtype or settings.dtype or "float32"
    return Workload(
        microbatch_tokens=settings.microbatch_tokens,
        context=settings.max_tokens or 0,
        prompt=len(opening),
        size=settings.size,
        slots=slots if settings.engine == "hf" else 0,
        itemsize=getattr(torch, torch_name(settings.dtype)).itemsize,
        sampler_itemsize=getattr(torch, torch_name(sampler_dtype)).itemsize if sampler_dtype != settings.dtype else 0,
        rank=settings.lora,
        targets=settings.lora_targets,
        recompute=bool(settings.checkpoint_activations),
        reference=reference,
        cold_start=is_new and bool(settings.cold_start),
        policies=policies,
        shards=settings.trainer_shards or settings.trainers,
        images=min(turns * image_tokens(model, opening), settings.max_tokens or 0),
        versions=settings.lag + 1 if settings.in_flight == "pin" else 1,
        past=past,
        other_models=other_models,
        on_gpu=on_gpu,
    )
