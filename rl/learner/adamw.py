"""AdamW in float32, whatever precision the weights have.

A step changes a weight by about the learning rate, 1e-6 for a pre-trained model, and bfloat16 numbers around 0.02 are
1e-4 apart: added to such weights, no step would ever be seen (Micikevicius et al., arXiv:1710.03740, section 3.1). So
the optimiser keeps a float32 copy of what is trained in less, steps there, and rounds it into the model; gradients of
several micro-batches add up in float32 too. Autocast over float32 weights costs as much for weights that are trained,
but twice as much for those that are not, as below adapters, and for the copy that is sampled from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class Float32AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` over `masters`: the parameters, or float32 copies of those in less."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float) -> None:
        own = list(parameters)
        self.masters = [weight if weight.element_size() >= 4 else weight.detach().float() for weight in own]
        self.pairs = [(weight, copy) for weight, copy in zip(own, self.masters, strict=True) if copy is not weight]
        super().__init__(self.masters, lr=lr, betas=(0.9, 0.99), weight_decay=weight_decay, fused=True)

    def adopt(self) -> None:
        """Take over weights that were changed by somebody else, as a cold start does; others keep all their digits."""
        with torch.no_grad():
            for weight, copy in self.pairs:
                torch.where(copy.to(weight.dtype) == weight, copy, weight.float(), out=copy)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Inside, a backward pass adds to the masters' gradients; a weight's own is gone as soon as it is complete."""
        hooks = [weight.register_post_accumulate_grad_hook(partial(_collect, copy)) for weight, copy in self.pairs]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def step(self, closure: Callable[[], float] | None = None) -> Any:  # type: ignore[override]
        """Step, and round the masters into the weights."""
        found = super().step(closure)
        with torch.no_grad():
            for weight, copy in self.pairs:
                weight.copy_(copy)
        return found

    def state_dict(self) -> dict[str, Any]:
        """AdamW's, and the copies where there are any."""
        state = super().state_dict()
        return {**state, "masters": [copy for _, copy in self.pairs]} if self.pairs else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`. Raises `ValueError` for one of other weights."""
        saved = state_dict.get("masters", [])
        if [copy.shape for copy in saved] != [copy.shape for _, copy in self.pairs]:
            raise ValueError("the optimiser's float32 copies are those of other weights")
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "masters"})
        with torch.no_grad():
            for (_, copy), value in zip(self.pairs, saved, strict=True):
                copy.copy_(value)


def _collect(copy: Tensor, weight: Tensor) -> None:
    if weight.grad is not None:
        if copy.grad is None:
            copy.grad = weight.grad.float()
        else:
            copy.grad += weight.grad
        weight.grad = None
