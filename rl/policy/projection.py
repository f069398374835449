"""Linear maps as a forward pass reads them: a weight, a bias, and the adapter that `peft` may have put on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Adapter(NamedTuple):
    """What LoRA adds to a map (Hu et al., arXiv:2106.09685, section 4.1): `scale * up @ down`."""

    down: Tensor  # (R, E)
    up: Tensor  # (F, R)
    scale: float


class Projection(NamedTuple):
    """A linear map, (N, E) to (N, F)."""

    weight: Tensor  # (F, E)
    bias: Tensor | None
    adapter: Adapter | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it. The adapter's matrices are never multiplied with each other: that would be another full weight."""
        y = F.linear(x, self.weight, self.bias)
        if self.adapter is None:
            return y
        return y + F.linear(F.linear(x, self.adapter.down), self.adapter.up) * self.adapter.scale


def readable(module: nn.Module) -> bool:
    """Whether `read` gives all that `module` computes: a plain linear layer, or one with a single plain adapter."""
    linear: Any = module
    if type(linear) is nn.Linear:
        return True
    if type(getattr(linear, "base_layer", None)) is not nn.Linear or not hasattr(linear, "lora_A"):
        return False
    variants = getattr(linear, "lora_variant", {}) or any(getattr(linear, "lora_bias", {}).values())
    dropout = any(not isinstance(part, nn.Identity) for part in linear.lora_dropout.values())
    return len(linear.lora_A) == 1 and not (variants or dropout or linear.disable_adapters or linear.merged)


def read(module: nn.Module) -> Projection:
    """The present weights of a `readable` module."""
    linear: Any = module
    if type(linear) is nn.Linear:
        return Projection(linear.weight, linear.bias)
    (name,) = linear.lora_A
    adapter = Adapter(linear.lora_A[name].weight, linear.lora_B[name].weight, linear.scaling[name])
    return Projection(linear.base_layer.weight, linear.base_layer.bias, adapter)


def side_by_side(*modules: nn.Module, fused: bool) -> tuple[Projection, ...]:
    """Maps that read the same input: as one whose weight is a copy if `fused`, else, or with adapters, each."""
    each = tuple(map(read, modules))
    if not fused or any(one.adapter for one in each):
        return each
    bias = None
    if any(one.bias is not None for one in each):
        bias = torch.cat([one.weight.new_zeros(len(one.weight)) if one.bias is None else one.bias for one in each])
    return (Projection(torch.cat([one.weight for one in each]), bias),)


def apply(maps: Sequence[Projection], x: Tensor) -> Tensor:
    """The outputs of `maps` next to each other."""
    return maps[0](x) if len(maps) == 1 else torch.cat([one(x) for one in maps], -1)
