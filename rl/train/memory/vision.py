"""The memory that the vision tower of a vision-language model takes in training, beside its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from rl.policy.images.inputs import image_inputs

FLOAT_BYTES = 4
CHANNELS = 3


def image_tokens(model: nn.Module, ids: Sequence[int]) -> int:
    """Return how many of a prompt's tokens a vision tower fills; 0 for a model that reads text only."""
    images = image_inputs(model)
    return list(ids).count(images.token) if images else 0


def vision_bytes(model: nn.Module, tokens: float, itemsize: int) -> int:
    """Estimate what the vision tower saves for its backward pass; its blocks are never recomputed.

    A block of width h with an MLP of width m is taken to save 12 h + 3 m numbers for each patch, and m more where the
    MLP has a gate: inputs and outputs of two norms, queries, keys and values before and after rotation, the attention's
    output, and the MLP's values around its activation. On four families that is 0.9 to 1.45 times what they save.

    Args:
        model: A model of any kind.
        tokens: Tokens of one micro-batch that the tower fills, whose images it computes once for each row.
        itemsize: Bytes of one weight.

    """
    config: Any = getattr(model.config, "vision_config", None)
    if config is None or not tokens:
        return 0
    hidden = getattr(config, "embed_dim", None) or config.hidden_size
    depth = getattr(config, "depth", None) or config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or int(hidden * config.mlp_ratio)
    merge = getattr(config, "spatial_merge_size", None) or getattr(model.config, "scale_factor", None) or 1
    is_gated = any("vis" in name and name.endswith("gate_proj") for name, _ in model.named_modules())
    patches = tokens * merge**2
    pixels = CHANNELS * config.patch_size**2 * (getattr(config, "temporal_patch_size", None) or 1)
    blocks = patches * depth * (12 * hidden + (4 if is_gated else 3) * inner) * itemsize
    merged = 3 * patches * hidden * itemsize
    return int(blocks + merged + patches * pixels * FLOAT_BYTES)
