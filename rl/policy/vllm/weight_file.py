"""A model's weights as a file for another process, in memory where the machine has room for it there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

SHARED = "/dev/shm"  # a file system in memory
SPARE = 64 << 20  # bytes that stay free in it


def folder(size: int) -> str:
    """A new folder for a file of `size` bytes: in memory if it fits there now, else on the disk."""
    here = os.access(SHARED, os.W_OK) and shutil.disk_usage(SHARED).free >= size + SPARE
    return tempfile.mkdtemp(prefix="turnwise-", dir=SHARED if here else None)


def pack(weights: Iterable[tuple[str, Tensor]], path: Path, dtype: torch.dtype) -> dict[str, str]:
    """Write weights as the engine computes with them; by name, those that another name stands for, written once."""
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    seen: dict[tuple[int, torch.Size, tuple[int, ...]], str] = {}
    for name, value in weights:
        written = value.to("cpu", dtype if value.is_floating_point() else None).contiguous()
        place = value.data_ptr(), value.shape, value.stride()
        twin = seen.setdefault(place, name)
        # A weight that was computed for this may lie where an earlier one did, so the place alone does not say it.
        if twin != name and torch.equal(_bits(written), _bits(tensors[twin])):
            tied[name] = twin
        else:
            tensors[name] = written if written.untyped_storage().nbytes() == written.nbytes else written.clone()
    save_file(tensors, path)
    return tied


def _bits(value: Tensor) -> Tensor:
    """A number that is none is not equal to itself."""
    return value.flatten().view(torch.uint8)


def unpack(path: str, tied: Mapping[str, str]) -> Iterator[tuple[str, Tensor]]:
    """What was packed, each tensor read when it is asked for."""
    also: dict[str, list[str]] = {}
    for name, twin in tied.items():
        also.setdefault(twin, []).append(name)
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 (it is no dict)
            value = file.get_tensor(name)
            for other in (name, *also.get(name, ())):
                yield other, value
