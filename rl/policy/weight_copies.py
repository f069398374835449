"""Copies of weights for a sampler that must not see a half-made update; frozen weights are shared, not copied."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn


def copy_trainable(part: Any) -> Any:
    """Copy the tensors of `part` that require a gradient; others are returned as they are.

    `part` is a tensor, anything else, or a (named) tuple of such parts. A tensor that was computed under no_grad, such
    as a fused projection, requires no gradient: it is a copy already.
    """
    if isinstance(part, Tensor):
        return part.clone() if part.requires_grad else part
    if isinstance(part, tuple):
        copies = map(copy_trainable, part)
        return type(part)(*copies) if hasattr(part, "_fields") else tuple(copies)
    return part


def cast_model(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a frozen copy of `model` in eval mode whose floating-point weights are of another precision."""
    return deepcopy(model).requires_grad_(False).eval().to(dtype)


def copy_weights(source: nn.Module, copy: nn.Module) -> bool:
    """Write the weights of `source` into `copy`, made by `cast_model`; False if their names differ, as with adapters.

    Weights of another precision are rounded.
    """
    weights, targets = source.state_dict(), copy.state_dict()
    if weights.keys() != targets.keys():
        return False
    with torch.no_grad():
        for name, value in weights.items():
            targets[name].copy_(value)
    return True


def twin_model(model: Any) -> Any:
    """Return a copy of `model`, which can be trained apart from it and shares the weights that are not trained."""
    frozen_weights = {id(weight): weight for weight in model.parameters() if not weight.requires_grad}
    return deepcopy(model, frozen_weights)


def copy_model(model: nn.Module) -> nn.Module:
    """Return a frozen copy of `model` in eval mode, which shares the weights that are not trained."""
    return twin_model(model).requires_grad_(False).eval()
