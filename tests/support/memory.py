"""Memory of a computation, counted in bytes: what autograd saves for the backward pass, and the peak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


def _storages(tensors: Iterable[Tensor]) -> dict[int, Any]:
    return {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}


def saved_bytes(compute: Callable[[], object], apart_from: Iterable[Tensor] = ()) -> int:
    """Return the bytes of the storages that the autograd graph of `compute` saves, those of `apart_from` excluded."""
    excluded_storages, storages = _storages(apart_from), dict[int, Any]()

    def pack(tensor: Tensor) -> Tensor:
        storages.update(_storages([tensor]))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = compute()
    del result
    return sum(storage.nbytes() for key, storage in storages.items() if key not in excluded_storages)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among what an operation takes or returns, and in lists and tuples of it."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


class _StorageTracker(TorchDispatchMode):
    """Tracks every storage that an operation creates; the peak of those alive is known with `has_peak` only."""

    def __init__(self, *, has_peak: bool = False) -> None:
        super().__init__()
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.has_peak, self.peak = has_peak, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        inputs = {tensor.untyped_storage()._cdata for tensor in _tensors((*args, *(kwargs or {}).values()))}
        for tensor in _tensors((out,)):
            storage = tensor.untyped_storage()
            if storage._cdata not in inputs:
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        if self.has_peak:
            self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
            self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return out


def retained_bytes(compute: Callable[[], object]) -> int:
    """Return the bytes alive after `compute`, its result and what its graph saves for the backward pass included."""
    with _StorageTracker() as tracker:
        result = compute()
    size = sum(size for storage, size in tracker.alive.values() if not storage.expired())
    del result
    return size


def peak_bytes(compute: Callable[[], object]) -> int:
    """Return the most bytes alive at once of all that `compute` creates, gradients included."""
    with _StorageTracker(has_peak=True) as tracker:
        compute()
    return tracker.peak
