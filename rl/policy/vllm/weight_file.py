"""A model's weights as a safetensors file for another process, in shared memory where there is room for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn


def write_weights(weights: Iterable[tuple[str, Tensor]], path: Path, dtype: torch.dtype) -> dict[str, str]:
    """Write weights to `path`, floating-point ones in `dtype`; a tensor with several names is written once.

    Returns the tied weights that were not written, as a mapping of name to the name under which the tensor is written.
    """
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    first_names: dict[tuple[int, torch.Size, tuple[int, ...]], str] = {}
    for name, value in weights:
        tensor = value.to("cpu", dtype if value.is_floating_point() else None).contiguous()
        place = value.data_ptr(), value.shape, value.stride()
        first_name = first_names.setdefault(place, name)
        # A weight that was computed for this call may lie where an earlier one did, so equal places are not enough.
        if first_name != name and torch.equal(_as_bytes(tensor), _as_bytes(tensors[first_name])):
            tied[name] = first_name
        else:
            tensors[name] = tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()
    save_file(tensors, path)
    return tied


def _as_bytes(value: Tensor) -> Tensor:
    """The bytes of a tensor: compared as numbers, NaN would differ from itself."""
    return value.flatten().view(torch.uint8)


def read_weights(path: str, tied: Mapping[str, str]) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights that `write_weights` wrote and the `tied` ones that it returned, reading one at a time."""
    other_names: dict[str, list[str]] = {}
    for name, first_name in tied.items():
        other_names.setdefault(first_name, []).append(name)
    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 (it is no dict)
            value = file.get_tensor(name)
            for each_name in (name, *other_names.get(name, ())):
                yield each_name, value


def without_second_head(model: nn.Module, weights: Iterable[tuple[str, Tensor]]) -> Iterable[tuple[str, Tensor]]:
    """Leave an output matrix out where vLLM's `model` has none beside its embedding, as in Gemma 2."""
    if any(name.rpartition(".")[2] == "lm_head" for name, _ in model.named_modules()):
        return weights
    return ((name, value) for name, value in weights if not name.endswith("lm_head.weight"))
