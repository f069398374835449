"""Faults that can be put into `rl.learner` for tests that must notice them."""

from __future__ import annotations

from rl.learner import gradient
from rl.learner.ranks.sharded import ShardedRanks


def put_in(name: str) -> None:
    """Put the fault of this name in: "" for none."""
    if name == "no common count":
        ShardedRanks.most = lambda self, count: count  # type: ignore[method-assign]
    elif name == "no pass without gradient":
        gradient._add_nothing = lambda *_: None
    elif name == "means in place of sums":
        from torch.distributed.fsdp import FSDPModule

        FSDPModule.set_gradient_divide_factor = lambda self, factor: None  # type: ignore[method-assign]
        FSDPModule.set_force_sum_reduction_for_comms = lambda self, enable: None  # type: ignore[method-assign]
    elif name == "gathered by hand":
        import rl.learner.learner as learner

        def inside(model, function, *args, **kwargs):  # type: ignore[no-untyped-def]
            for module in model.modules():
                if hasattr(module, "unshard"):
                    module.unshard()
            return function(model, *args, **kwargs)

        learner.inside = inside
    elif name:
        raise ValueError(name)
