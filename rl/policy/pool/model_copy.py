"""A model in another process: its structure as bytes, without the weights, which are in files."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

_PARAMETER, _TENSOR = "parameter", "tensor"


class _Pickler(pickle.Pickler):
    """Writes a parameter as its shape and precision, and any other tensor as one of the CPU."""

    def __init__(self, buffer: io.BytesIO, model: nn.Module) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._names = {id(weight): name for name, weight in model.named_parameters()}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor):
            return None
        if (name := self._names.get(id(obj))) is not None:
            return _PARAMETER, name, tuple(obj.shape), obj.dtype
        return _TENSOR, id(obj), obj.detach().cpu().numpy() if obj.dtype != torch.bfloat16 else obj.tolist(), obj.dtype


class _Unpickler(pickle.Unpickler):
    """Makes frozen parameters with weights that are still to be loaded."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer)
        self._tensors: dict[tuple[str, Any], Tensor] = {}  # tied ones are one

    def persistent_load(self, pid: Any) -> Tensor:
        kind, key, content, dtype = pid
        if (kind, key) not in self._tensors:
            if kind == _PARAMETER:
                tensor: Tensor = nn.Parameter(torch.empty(content, dtype=dtype), requires_grad=False)
            else:
                tensor = torch.tensor(content, dtype=dtype)
            self._tensors[kind, key] = tensor
        return self._tensors[kind, key]


def dump_structure(model: nn.Module, flag: str = "--engines") -> bytes:
    """Return all of a model but the values of its parameters.

    Raises `ValueError` for a model that cannot be sent to another process, which `flag` asks for.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, model).dump(model)
    except Exception as error:  # whatever its classes raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{flag}: this model cannot be sent to another process ({reason}); leave it out") from error
    return buffer.getvalue()


def load_structure(data: bytes, device: str) -> nn.Module:
    """Return the model of `dump_structure` on a device, in eval mode, frozen, its weights still to be loaded."""
    model: nn.Module = _Unpickler(io.BytesIO(data)).load()
    return model.to(device).eval()


def load_weights(model: nn.Module, paths: Sequence[str]) -> None:
    """Write the weights in safetensors files into the parameters of a model, by their names."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for path in paths:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 (it is no dict)
                    parameters[name].copy_(file.get_tensor(name))
