"""Bytes, counted and not timed: what an autograd graph keeps for its backward pass, and the most that is alive at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def _storages(tensors: Iterable[Tensor]) -> dict[int, Any]:
    return {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}


def saved(compute: Callable[[], object], apart_from: Iterable[Tensor] = ()) -> int:
    """Bytes of the storages that the graph of `compute` saves, without those of the weights `apart_from`."""
    known, found = _storages(apart_from), dict[int, Any]()

    def pack(tensor: Tensor) -> Tensor:
        found.update(_storages([tensor]))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = compute()
    del kept
    return sum(storage.nbytes() for key, storage in found.items() if key not in known)


class _Alive(TorchDispatchMode):
    """Follows every storage that an operation makes, until it goes."""

    def __init__(self) -> None:
        super().__init__()
        self.here: dict[int, tuple[StorageWeakRef, int]] = {}
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        self.here = {key: held for key, held in self.here.items() if not held[0].expired()}
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in given:
                storage = tensor.untyped_storage()
                self.here[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.most = max(self.most, sum(size for _, size in self.here.values()))
        return out


def left(compute: Callable[[], object]) -> int:
    """Bytes alive once `compute` is done and its result is there: with a graph, what that keeps for its backward pass."""
    with _Alive() as alive:
        kept = compute()
    here = sum(size for storage, size in alive.here.values() if not storage.expired())
    del kept
    return here


def peak(compute: Callable[[], object]) -> int:
    """The most bytes alive at once of all that `compute` makes, gradients included."""
    with _Alive() as alive:
        compute()
    return alive.most
