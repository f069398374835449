"""Where an engine computes, and what it shares with the trainer there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from rl.policy.vllm.memory import Room, room, whole


class Place(NamedTuple):
    """CUDA `devices` by the numbers that this process has for them, none on a CPU; `shared` with the model."""

    devices: tuple[int, ...]
    shared: bool
    reserve_bytes: int | None

    @classmethod
    def of(cls, device: torch.device, devices: Sequence[int], *, reserve_bytes: int | None) -> Place:
        """The named CUDA devices, or the model's own. Raises `ValueError` for one that is not there."""
        if device.type == "cpu":
            if devices:
                raise ValueError(f"--engine-devices {_listed(devices)}: vLLM's CPU build has none; leave it out")
            return cls((), False, reserve_bytes)
        here = torch.cuda.device_count()
        missing = [number for number in devices if number >= here]
        if missing:
            raise ValueError(
                f"--engine-devices {_listed(devices)}: there is no CUDA device {missing[0]} among the {here} here, "
                f"counted from 0"
            )
        own = torch.cuda.current_device() if device.index is None else device.index
        return cls(tuple(devices) or (own,), not devices or own in devices, reserve_bytes)

    def room(self, model: nn.Module, slots: int, context: int, itemsize: int, cache_gib: float) -> Room:
        """The memory that the engine may take."""
        if self.devices and not self.shared:
            return whole(self.devices)
        return room(model, slots, context, itemsize, reserve_bytes=self.reserve_bytes, cache_gib=cache_gib)

    def variables(self) -> dict[str, str]:
        """What makes a process see these devices alone, or compute with as many threads of a CPU as this one."""
        if not self.devices:
            return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(torch.get_num_threads()))}
        names = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
        shown = [names[number] if names != [""] else str(number) for number in self.devices]
        return {"CUDA_VISIBLE_DEVICES": ",".join(shown)}


def _listed(devices: Sequence[int]) -> str:
    return ",".join(map(str, devices))
