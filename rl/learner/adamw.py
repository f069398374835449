"""AdamW with float32 master weights, whatever precision the model has.

A step changes a weight by about the learning rate, 1e-6 for a pre-trained model, and bfloat16 numbers around 0.02 are
1e-4 apart: added to such weights, no step would have any effect (Micikevicius et al., arXiv:1710.03740, section 3.1).
So the optimiser keeps a float32 copy of every trained weight of lower precision, updates that, and rounds it into the
model; the gradients of several micro-batches are summed in float32 too. Autocast over float32 weights costs as much
memory for weights that are trained, but twice as much for those that are not (as below adapters) and for the sampler's
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class Float32AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` over float32 master weights.

    `masters` are the tensors that are optimised: a parameter itself where it is float32, else a float32 copy of it.
    `pairs` are the `(parameter, copy)` of the latter.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        weight_decay: float,
        head: Iterable[nn.Parameter] = (),
        head_lr: float | None = None,
    ) -> None:
        """Make the float32 copies and two groups of parameters, the second of which may be empty.

        Args:
            parameters: Weights of the model.
            lr: Their learning rate.
            weight_decay: Decoupled weight decay of all parameters.
            head: Weights of a value head on the model.
            head_lr: Their learning rate; None for `lr`.
        """
        head = list(head)
        weights = [*parameters, *head]
        self.masters = [weight if weight.element_size() >= 4 else weight.detach().float() for weight in weights]
        self.pairs = [
            (weight, master) for weight, master in zip(weights, self.masters, strict=True) if master is not weight
        ]
        count = len(weights) - len(head)
        groups: list[dict[str, Any]] = [{"params": self.masters[:count]}]
        if head:
            groups.append({"params": self.masters[count:], "lr": lr if head_lr is None else head_lr})
        super().__init__(groups, lr=lr, betas=(0.9, 0.99), weight_decay=weight_decay, fused=True)
        self.rates: list[float] = [group["lr"] for group in self.param_groups]

    def scale_rates(self, scale: float) -> None:
        """Set every group's learning rate to `scale` times the one that it was made with."""
        for group, rate in zip(self.param_groups, self.rates, strict=True):
            group["lr"] = rate * scale

    def sync_masters(self) -> None:
        """Copy weights that were changed outside this optimiser (by a cold start) into their masters.

        A master that still rounds to its weight keeps its extra digits.
        """
        with torch.no_grad():
            for weight, master in self.pairs:
                torch.where(master.to(weight.dtype) == weight, master, weight.float(), out=master)

    @contextmanager
    def accumulate_in_masters(self) -> Iterator[None]:
        """Context in which a backward pass adds to the gradients of the masters.

        The low-precision gradient of a weight is freed as soon as it is complete.
        """
        hooks = [
            weight.register_post_accumulate_grad_hook(partial(_move_gradient, master)) for weight, master in self.pairs
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def step(self, closure: Callable[[], float] | None = None) -> Any:  # type: ignore[override]
        """Take one AdamW step on the masters and round them into the weights."""
        result = super().step(closure)
        with torch.no_grad():
            for weight, master in self.pairs:
                weight.copy_(master)
        return result

    def state_dict(self) -> dict[str, Any]:
        """Return AdamW's state, with the float32 copies under `masters` if there are any."""
        state = super().state_dict()
        return {**state, "masters": [master for _, master in self.pairs]} if self.pairs else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`. Raises `ValueError` if its float32 copies have other shapes than the weights."""
        masters = state_dict.get("masters", [])
        if [master.shape for master in masters] != [master.shape for _, master in self.pairs]:
            raise ValueError("the optimiser's float32 copies are those of other weights")
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "masters"})
        with torch.no_grad():
            for (_, master), value in zip(self.pairs, masters, strict=True):
                master.copy_(value)


def _move_gradient(master: Tensor, weight: Tensor) -> None:
    """Add the gradient of `weight` to that of `master` and free it."""
    if weight.grad is not None:
        if master.grad is None:
            master.grad = weight.grad.float()
        else:
            master.grad += weight.grad
        weight.grad = None
