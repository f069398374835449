"""Weights that another process reads where they are: on a GPU by CUDA's handles, so that nothing goes through the CPU.

A handle is the function and the arguments by which torch builds the tensor anew, as `torch.multiprocessing` sends them.
The weights must stay where they are until the other process has copied them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor

SharedTensor = tuple[Callable[..., Tensor], tuple[Any, ...]]
_DEVICE = 6  # place of the device's number in the arguments of `rebuild_cuda_tensor`


def share_weights(weights: Iterable[tuple[str, Tensor]]) -> tuple[list[tuple[str, SharedTensor]], list[Tensor]]:
    """Return handles for `weights` by name, and the tensors, to be kept until the handles have been used.

    Work that computes the weights is waited for. Raises `RuntimeError` if the memory cannot be shared.
    """
    tensors = [(name, value.detach().contiguous()) for name, value in weights]
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return [(name, reduce_tensor(value)) for name, value in tensors], [value for _, value in tensors]


def rebuild_weights(handles: Sequence[tuple[str, SharedTensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of the other process, by name.

    The GPU that they are on has another number here if each process sees other devices; it is this process's current.
    """
    for name, (rebuild, arguments) in handles:
        if rebuild is rebuild_cuda_tensor:
            arguments = (*arguments[:_DEVICE], torch.cuda.current_device(), *arguments[_DEVICE + 1 :])
        yield name, rebuild(*arguments)


def release_shared() -> None:
    """Wait until shared tensors have been read, and give back what is no longer used."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        torch.cuda.ipc_collect()
