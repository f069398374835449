"""The CUDA devices of a pool's engines."""

from __future__ import annotations

import os

import torch


def check_devices(devices: str, device: torch.device) -> list[str]:
    """Return the lists of `--engine-devices`, one for each engine of a model on `device`; [] for none.

    Raises `ValueError` for devices that do not exist.
    """
    lists = devices.split(";") if devices else []
    if lists and device.type == "cpu":
        raise ValueError(f"--engine-devices {devices}: the model is on the CPU; leave it out")
    largest = max((int(number) for one in lists for number in one.split(",")), default=-1)
    if largest >= (count := torch.cuda.device_count()):
        raise ValueError(f"--engine-devices {devices}: no CUDA device {largest} among the {count} here, from 0")
    return lists


def visible_devices(devices: str) -> str:
    """Return CUDA_VISIBLE_DEVICES for devices that are numbered as this process sees them."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
    numbers = [int(number) for number in devices.split(",")]
    return ",".join(names[number] if names != [""] else str(number) for number in numbers)
