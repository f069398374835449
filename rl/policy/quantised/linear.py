"""Linear layers that round their weights and inputs to FP8, with float32 arithmetic: fake quantisation.

What a layer computes then has the rounding of FP8 and none of its speed. Sampler and trainer round alike if both
compute with these layers (Jet-RL, arXiv:2601.14243). Gradients pass the rounding unchanged (straight-through), to
weights that stay in full precision.
"""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)

BLOCK = 128  # rows and columns of a block of weights, and numbers of a token's input, that have a scale in common
LARGEST = 448.0  # of E4M3: four bits of exponent, three of mantissa (Micikevicius et al., arXiv:2209.05433)


def round_fp8(x: Tensor, rows: int) -> Tensor:
    """Return x (N, E) as E4M3 represents it, with a scale for each block of `rows` rows and 128 columns.

    The scale is the largest magnitude of the block over 448. The gradient is that of x.
    """
    blocks = F.pad(x.detach(), (0, -x.shape[1] % BLOCK, 0, -x.shape[0] % rows))
    blocks = blocks.unflatten(0, (-1, rows)).unflatten(2, (-1, BLOCK))
    scale = (blocks.abs().amax((1, 3), keepdim=True) / LARGEST).clamp(min=1e-30)
    values = (blocks / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).to(x.dtype) * scale
    values = values.flatten(2, 3).flatten(0, 1)[: x.shape[0], : x.shape[1]]
    return x + (values - x.detach())


def round_weight(weight: Tensor) -> Tensor:
    """Return a weight (F, E) rounded with a scale for each block of 128 x 128."""
    return round_fp8(weight, BLOCK)


def round_input(x: Tensor) -> Tensor:
    """Return inputs (..., E) rounded with a scale for each 128 numbers of a token."""
    return round_fp8(x.reshape(-1, x.shape[-1]), 1).view(x.shape)


class FakeFP8Linear(nn.Linear):
    """A linear layer with the weights of another one, which rounds them and its inputs."""

    def forward(self, input: Tensor) -> Tensor:
        """Project (..., E) to (..., F)."""
        return F.linear(round_input(input), round_weight(self.weight), self.bias)


def quantise(model: Model) -> Model:
    """Make every linear layer of a model but its output layer a `FakeFP8Linear`, in place; return the model.

    Names and values of weights stay. Raises `ValueError` for a model without such layers.
    """
    head = getattr(model, "get_output_embeddings", lambda: None)()
    layers = [module for module in model.modules() if type(module) is nn.Linear and module is not head]
    if not layers:
        raise ValueError("the model has no linear layers to quantise")
    for layer in layers:
        layer.__class__ = FakeFP8Linear
    return model


def is_quantised(model: nn.Module) -> bool:
    """Whether a model has layers that round."""
    return any(isinstance(module, FakeFP8Linear) for module in model.modules())
