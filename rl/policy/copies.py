"""Copies of weights for a reader that must not see them half changed; those that never change are not copied."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import Tensor, nn


def own(part: Any) -> Any:
    """A tensor, or tuples of them and of anything else, with the tensors copied that are trained.

    What no_grad computed of them is a copy already.
    """
    if isinstance(part, Tensor):
        return part.clone() if part.requires_grad else part
    if isinstance(part, tuple):
        made = map(own, part)
        return type(part)(*made) if hasattr(part, "_fields") else tuple(made)
    return part


def copied(model: nn.Module) -> nn.Module:
    """A model of the same structure that shares the frozen weights, which adapters leave as they are."""
    shared = {id(weight): weight for weight in model.parameters() if not weight.requires_grad}
    return deepcopy(model, shared).requires_grad_(False).eval()
