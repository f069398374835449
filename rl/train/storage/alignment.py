"""Memory of tensors that were read from files: where it begins decides how a CPU rounds.

`safetensors` maps files, so that a tensor begins wherever the file has it, while memory that torch allocates begins at
a multiple of 64 bytes. Kernels of matrix products add in another order at other places. A resumed run, whose weights
come from a checkpoint, would therefore end with other bits than an uninterrupted one.
"""

from __future__ import annotations

from itertools import chain

from torch import Tensor, nn

ALIGNMENT = 64  # bytes, of memory that torch allocates on a CPU


def aligned(tensor: Tensor) -> Tensor:
    """Return a tensor of the CPU as it is where its memory begins as torch's own does, else a copy of it."""
    return tensor.clone() if tensor.device.type == "cpu" and tensor.data_ptr() % ALIGNMENT else tensor


def align(module: nn.Module) -> None:
    """Move the parameters and buffers of `module` that are in the memory of a file into torch's own, one at a time."""
    for tensor in chain(module.parameters(), module.buffers()):
        tensor.data = aligned(tensor.data)
