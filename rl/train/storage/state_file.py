"""The trainer's state in a checkpoint: JSON and safetensors, so that reading it can execute nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rl.rollout.record_codec import decode, encode
from rl.train.storage.alignment import aligned
from rl.train.storage.durable_files import share_like

STATE, TENSORS = "state.json", "state.safetensors"


class StateSnapshot(NamedTuple):
    """A trainer's state as it will be written: the text of `state.json`, and the tensors of `state.safetensors`."""

    text: str
    tensors: dict[str, Tensor]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> StateSnapshot:
        """Encode `state`; its tensors are not copied yet.

        It may hold what `rl.rollout.record_codec.encode` takes, tensors and NumPy arrays. Raises `TypeError` for
        anything else.
        """
        tensors: dict[str, Tensor] = {}
        names: dict[tuple[Any, ...], str] = {}  # of tied weights, which are one tensor under two names

        def store(value: Any) -> Any:
            if isinstance(value, np.ndarray) and value.dtype != object:
                name = str(len(tensors))
                tensors[name] = torch.from_numpy(np.array(value, order="C"))
                return {"numpy": name}
            if not isinstance(value, Tensor):
                return None
            place = value.data_ptr(), value.shape, value.stride(), value.dtype
            name = names.get(place, "") if value.numel() else ""
            if not name:
                name = names[place] = str(len(tensors))
                tensors[name] = value.detach()
            return {"torch": name}

        return cls(json.dumps(encode(state, store)), tensors)


def write_state(folder: Path, state: StateSnapshot) -> None:
    """Write `state` to `state.json` and `state.safetensors` in `folder`.

    Raises `OSError` or `SafetensorError` if the files cannot be written.
    """
    tensors = {name: value.contiguous() for name, value in state.tensors.items()}
    save_file(_without_overlaps(tensors), folder / TENSORS)
    (folder / STATE).write_text(state.text, encoding="ascii")
    share_like(folder / STATE, folder / TENSORS)


def read_state(folder: Path) -> dict[str, Any]:
    """Return the state that `write_state` wrote to `folder`, with tensors and arrays in the CPU's memory.

    Raises an exception of any type if the files are damaged.
    """
    tensors = {name: aligned(tensor) for name, tensor in load_file(folder / TENSORS).items()}

    def load(place: dict[str, str]) -> Any:
        return tensors[place["torch"]] if "torch" in place else tensors[place["numpy"]].numpy()

    return dict(decode(json.loads((folder / STATE).read_bytes()), load))


def _without_overlaps(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors that share memory with an earlier one, because a file of safetensors cannot say that they do."""
    storages: set[int] = set()
    copies: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        copies[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    return copies
