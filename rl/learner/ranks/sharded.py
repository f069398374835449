"""Ranks that shard a model among them with FSDP2 (`torch.distributed.fsdp.fully_shard`), or with HSDP.

A block's weights are gathered for its pass and dropped after it; gradients are summed over the ranks, so the losses of
micro-batches and ranks add up as in one process. Only a module's own `forward` gathers weights. `inside` therefore runs
a function of the model as if it were the model's forward, and the model's blocks are computed by the library's code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import tree_map

from rl.learner.forward import blocks
from rl.learner.own_forward import abilities, take_abilities
from rl.learner.ranks.division import divide
from rl.methods.inputs import Row
from rl.policy.decoder import CALL


class ShardedRanks:
    """This process and the others of its process group, as `rl.learner.ranks.division.Ranks`.

    Attributes:
        count: Number of ranks.
        rank: Number of this one.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        count: int,
        *,
        device: torch.device,
        make_model: Callable[[], nn.Module],
        shards: int = 0,
        dtype: torch.dtype | None = None,
        timeout_s: float = 1800.0,
    ) -> None:
        """Form the process group; every rank calls this at about the same time.

        Args:
            store: Where the ranks find each other.
            rank: Number of this rank.
            count: Number of ranks.
            device: Where it computes: `cpu` (gloo) or a CUDA device of its own (NCCL).
            make_model: Returns a model of the shape of the trained one, for `copy`; its weights are overwritten.
            shards: Ranks that a weight is divided among, each such set having all weights (HSDP); 0 for all ranks.
            dtype: Precision of passes, with float32 weights; None for that of the weights.
            timeout_s: Seconds after which a rank that waits for others gives up.
        """
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=timedelta(seconds=timeout_s))
        shape = (count // shards, shards) if 0 < shards < count else (count,)
        names = ("replica", "shard")[-len(shape) :]
        self.count, self.rank, self._device = count, rank, device
        self._mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
        self._make_model, self._dtype = make_model, dtype

    def own(self, rows: Sequence[Row]) -> list[int]:
        """See `Ranks.own`."""
        return divide(rows, self.count)[self.rank]

    def most(self, count: int) -> int:
        """See `Ranks.most`."""
        return int(self.largest(torch.tensor(count)))

    def total(self, numbers: Tensor) -> Tensor:
        """See `Ranks.total`."""
        return self._reduce(numbers, dist.ReduceOp.SUM)

    def largest(self, numbers: Tensor) -> Tensor:
        """See `Ranks.largest`."""
        return self._reduce(numbers, dist.ReduceOp.MAX)

    def shard(self, module: nn.Module) -> None:
        """See `Ranks.shard`. The blocks of a model are sharded each, so that one is whole at a time."""
        policy = MixedPrecisionPolicy(param_dtype=self._dtype, reduce_dtype=torch.float32)
        if not hasattr(module, "config"):
            policy = MixedPrecisionPolicy()  # a head is computed in float32
        else:
            abilities(module)  # its trial reads whole weights
            setattr(module, CALL, MethodType(_call, module))
            for block in blocks(module):
                fully_shard(block, mesh=self._mesh, mp_policy=policy)
        fully_shard(module, mesh=self._mesh, mp_policy=policy, reshard_after_forward=True)
        if hasattr(module, CALL):
            register_fsdp_forward_method(module, CALL)
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)  # gloo has no reduction with a factor

    def copy(self, model: Any) -> Any:
        """See `Ranks.copy`."""
        other = self._make_model().to(self._device).eval()
        take_abilities(other, model)
        self.shard(other)
        with torch.no_grad():
            for target, source in zip(other.parameters(), model.parameters(), strict=True):
                target.copy_(source)
        return other

    def weights(self, model: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
        """Return the weights of `model` that have these names, whole and on the CPU; all ranks but the first get {}."""
        by_name = {name: weight for name, weight in model.named_parameters() if name in names}
        return self.whole_state(by_name)

    def set_weights(self, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
        """Write whole weights, by name, into `model`. Raises `ValueError` for another name or shape."""
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in weights.items():
                if name not in own or own[name].shape != value.shape:
                    raise ValueError(f"the trainers' model has no weight {name} of shape {tuple(value.shape)}")
                own[name].copy_(self.part(value, own[name]))

    def whole_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """See `Ranks.whole_state`. The ranks but the first return empty tensors."""

        def whole(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: whole(item) for key, item in value.items()}
            if isinstance(value, list):
                return [whole(item) for item in value]
            if not isinstance(value, Tensor):
                return value
            value = value.full_tensor() if isinstance(value, DTensor) else value
            return value.detach().cpu() if self.rank == 0 else torch.empty(0)

        return whole(state)

    def part(self, whole: Tensor, like: Tensor) -> Tensor:
        """See `Ranks.part`."""
        if not isinstance(like, DTensor):
            return whole
        whole = whole.to(like.device, like.dtype)
        return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)

    def part_of_optimizer(self, state: dict[str, Any], weights: Sequence[Tensor]) -> dict[str, Any]:
        """See `Ranks.part_of_optimizer`."""
        moments = {
            index: {
                name: self.part(value, weights[index]) if value.shape == weights[index].shape else value
                for name, value in of_weight.items()
            }
            for index, of_weight in state["state"].items()
        }
        return {**state, "state": moments}

    def _reduce(self, numbers: Tensor, how: Any) -> Tensor:
        result = numbers.detach().to(self._device, copy=True)
        dist.all_reduce(result, how)
        return result.to(numbers.device)


def _call(model: nn.Module, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    def own(value: Any) -> Any:  # a view would lose the hook that gathers the weights again for the backward pass
        return value.clone() if isinstance(value, Tensor) and value._is_view() else value

    return tree_map(own, function(model, *args, **kwargs))
