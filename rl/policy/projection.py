"""Linear projections as a forward pass reads them: weight, bias and the LoRA adapter that `peft` may have added.

Legend: N tokens, E input size, F output size, R rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rl.policy.quantised.linear import FakeFP8Linear, round_input, round_weight


class Adapter(NamedTuple):
    """The low-rank update of a projection, `scale * up @ down` (LoRA, Hu et al., arXiv:2106.09685, section 4.1)."""

    down: Tensor  # (R, E)
    up: Tensor  # (F, R)
    scale: float


class Projection(NamedTuple):
    """A linear map from (N, E) to (N, F)."""

    weight: Tensor  # (F, E)
    bias: Tensor | None  # (F,)
    adapter: Adapter | None = None
    rounds_input: bool = False  # to FP8, as its weight has been

    def __call__(self, x: Tensor) -> Tensor:
        """Project (N, E) to (N, F). `up @ down` is never computed: it would be as large as the weight."""
        y = F.linear(round_input(x) if self.rounds_input else x, self.weight, self.bias)
        if self.adapter is None:
            return y
        return y + F.linear(F.linear(x, self.adapter.down), self.adapter.up) * self.adapter.scale


def is_readable(module: nn.Module) -> bool:
    """Whether `read_projection` covers all that `module` computes.

    True for a plain linear layer, alone or with one LoRA adapter without dropout, bias or variant.
    """
    linear: Any = module
    if type(linear) in (nn.Linear, FakeFP8Linear):
        return True
    if type(getattr(linear, "base_layer", None)) is not nn.Linear or not hasattr(linear, "lora_A"):
        return False
    variants = getattr(linear, "lora_variant", {}) or any(getattr(linear, "lora_bias", {}).values())
    dropout = any(not isinstance(part, nn.Identity) for part in linear.lora_dropout.values())
    return len(linear.lora_A) == 1 and not (variants or dropout or linear.disable_adapters or linear.merged)


def read_projection(module: nn.Module) -> Projection:
    """Return the current weight, bias and adapter of a module that `is_readable`; they are not copied."""
    linear: Any = module
    if type(linear) is nn.Linear:
        return Projection(linear.weight, linear.bias)
    if type(linear) is FakeFP8Linear:
        return Projection(round_weight(linear.weight), linear.bias, rounds_input=True)
    (name,) = linear.lora_A
    adapter = Adapter(linear.lora_A[name].weight, linear.lora_B[name].weight, linear.scaling[name])
    return Projection(linear.base_layer.weight, linear.base_layer.bias, adapter)


def read_projections(*modules: nn.Module, fuse: bool) -> tuple[Projection, ...]:
    """Return the weight, bias and adapter of each module, in order; all modules read the same input.

    With `fuse`, and if no module has an adapter, returns a single projection whose weight, and bias if any has one, are
    concatenated copies.
    """
    projections = tuple(map(read_projection, modules))
    if not fuse or any(one.adapter for one in projections):
        return projections
    bias = None
    if any(one.bias is not None for one in projections):
        bias = torch.cat(
            [one.weight.new_zeros(len(one.weight)) if one.bias is None else one.bias for one in projections]
        )
    weight = torch.cat([one.weight for one in projections])
    return (Projection(weight, bias, rounds_input=projections[0].rounds_input),)


def apply_two(projections: Sequence[Projection], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs (N, F) of two projections of one size, fused or not, for x (N, E)."""
    if len(projections) == 2:  # without joining them: they are a model's largest tensors
        return projections[0](x), projections[1](x)
    first, second = projections[0](x).chunk(2, -1)
    return first, second
