"""The devices that an engine computes on, and whether it shares one with the trainer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from rl.policy.vllm.memory import MemoryBudget, shared_budget, whole_gpu_budget


class EngineDevices(NamedTuple):
    """The CUDA devices of an engine, by this process's numbers; `numbers` is empty on a CPU.

    `with_trainer` is True if the model's own GPU is among them. `reserve_bytes` is as of `open_engine`.
    """

    numbers: tuple[int, ...]
    with_trainer: bool
    reserve_bytes: int | None

    @classmethod
    def resolve(cls, model_device: torch.device, numbers: Sequence[int], *, reserve_bytes: int | None) -> EngineDevices:
        """Return the CUDA devices `numbers`, or the model's device if there are none; none at all on a CPU.

        `reserve_bytes` is GPU memory that a trainer will still take, None if nothing is trained. Raises `ValueError`
        for a device that does not exist.
        """
        if model_device.type == "cpu":
            if numbers:
                raise ValueError(f"--engine-devices {_join(numbers)}: vLLM's CPU build has none; leave it out")
            return cls((), False, reserve_bytes)
        count = torch.cuda.device_count()
        missing = [number for number in numbers if number >= count]
        if missing:
            raise ValueError(
                f"--engine-devices {_join(numbers)}: there is no CUDA device {missing[0]} among the {count} here, "
                f"counted from 0"
            )
        own = torch.cuda.current_device() if model_device.index is None else model_device.index
        return cls(tuple(numbers) or (own,), not numbers or own in numbers, reserve_bytes)

    def memory_budget(
        self, model: nn.Module, slots: int, context: int, itemsize: int, cache_gib: float, following: int = 0
    ) -> MemoryBudget:
        """Return the memory that the engine may take, on GPUs of its own or beside a trainer on the device of `model`.

        `slots` is the most sequences at a time, `context` the most tokens of one, `itemsize` the bytes of a number in
        the engine's precision, `cache_gib` the most GiB of keys and values on a CPU, `following` the number of engines
        that will share the GPU with it. Raises `ValueError` if next to nothing of a shared GPU is left.
        """
        if self.numbers and not self.with_trainer:
            return whole_gpu_budget(self.numbers)
        reserve = self.reserve_bytes
        return shared_budget(
            model, slots, context, itemsize, reserve_bytes=reserve, cache_gib=cache_gib, following=following
        )

    def environment(self) -> dict[str, str]:
        """Return environment variables for the engine's process.

        It sees these devices alone; on a CPU it computes with as many threads as this process.
        """
        if not self.numbers:
            return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(torch.get_num_threads()))}
        names = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
        visible = [names[number] if names != [""] else str(number) for number in self.numbers]
        return {"CUDA_VISIBLE_DEVICES": ",".join(visible)}


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
