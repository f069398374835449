"""Sampling engines by the name that `--engine` gives them. Importing this module does not import torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rl.policy.servers.address import check_servers

if TYPE_CHECKING:
    from torch import nn

    from rl.policy.engine import Engine

DRAWS = ("keyed", "native")  # who draws vLLM's tokens: the code of the hf engine, or vLLM's own sampler
ENGINES = (
    *("hf", "vllm", "vllm:process"),
    *(f"{engine}:{draws}" for engine in ("vllm", "vllm:process") for draws in DRAWS),
)
FAKE_FP8 = "fake-fp8"  # float32, rounded as FP8 would be
DTYPES = ("float32", "bfloat16", FAKE_FP8)
SEPARATE_PROCESS = "vllm:process"
MAX_ENGINES = 1024


def parse_device_list(text: str) -> str:
    """Check a flag that lists CUDA devices, such as `1,2`, or `1;2,3` for two engines; return it without blanks.

    Raises `argparse.ArgumentTypeError` for anything but distinct numbers.
    """
    if ";" in text:
        return ";".join(map(parse_device_list, text.split(";")))
    numbers = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise argparse.ArgumentTypeError("must be numbers of CUDA devices such as 1,2")
    if len({int(number) for number in numbers}) < len(numbers):
        raise argparse.ArgumentTypeError("names a device twice")
    return ",".join(numbers)


def engine_devices(engine: str, devices: str) -> tuple[int, ...]:
    """Return the CUDA devices in a list such as `1,2`, () for an empty one.

    Raises `ValueError` if `engine` does not run in a process of its own and so has no devices of its own, or for
    several lists.
    """
    if devices and not engine.startswith(SEPARATE_PROCESS):
        raise ValueError(
            f"--engine-devices {devices}: only an engine of its own process has them; add --engine {SEPARATE_PROCESS}"
        )
    if ";" in devices:
        raise ValueError(f"--engine-devices {devices}: an engine takes one list, such as 1,2")
    return tuple(int(number) for number in devices.split(",") if number)


def check_engines(engine: str, devices: str, engines: int) -> None:
    """Raise `ValueError` for CUDA devices that `engines` engines of this kind cannot have.

    One engine has one list such as `1,2`, several have one each, such as `1;2`.
    """
    if engines == 1:
        engine_devices(engine, devices)
        return
    lists = devices.split(";") if devices else []
    if lists and len(lists) != engines:
        example = ";".join(str(number + 1) for number in range(engines))
        raise ValueError(f"--engine-devices {devices}: give each of {engines} engines one list, as {example}")
    if not engine.startswith("vllm") and (split := next((one for one in lists if "," in one), None)):
        raise ValueError(f"--engine-devices {split}: an engine hf computes on one device; give each one number")


def torch_name(dtype: str | None) -> str:
    """Return the name in `torch` of the numbers that a precision of `DTYPES` computes with; None is float32."""
    return "float32" if dtype in (None, FAKE_FP8) else dtype


def default_dtype(engine: str, device: str, dtype: str) -> str:
    """Return the precision in which `engine` samples where none is asked for.

    `device` is the kind of device of a model whose weights have the precision `dtype`. vLLM computes in bfloat16 on a
    GPU and in float32 on a CPU, whatever the model's is.
    """
    if engine.startswith("vllm"):
        return "float32" if device == "cpu" else "bfloat16"
    return dtype


def computing_dtype(device: str, *, is_tiny: bool) -> str:
    """Return the precision in which a model computes where none is asked for, on a kind of device.

    That is bfloat16 on CUDA, as models that have been trained before are published, and float32 for the bundled model
    and on a CPU.
    """
    return "bfloat16" if device == "cuda" and not is_tiny else "float32"


def open_engine(
    name: str,
    model: nn.Module,
    *,
    slots: int = 256,
    context: int | None = None,
    reserve_bytes: int | None = None,
    following: int = 0,
    devices: str = "",
    dtype: str = "",
    engines: int = 1,
    cluster: str = "",
    urls: Sequence[str] = (),
) -> Engine:
    """Start a sampling engine on `model`.

    Args:
        name: One of `ENGINES`. Without `:keyed` or `:native` vLLM's own sampler is used where a model is trained on a
            GPU, and that of the hf engine elsewhere.
        model: A Hugging Face causal language model.
        slots: Most sequences sampled at a time.
        context: Most tokens of one sequence; None for the most that the model can compute.
        reserve_bytes: Memory that a trainer will still take on the model's device; None if nothing is trained.
        following: Engines that will be started after it on the same device, and get as much of the memory.
        devices: CUDA devices of an engine in a process of its own, such as `1,2`; empty for the model's device.
        dtype: Precision that replies are sampled in, one of `DTYPES`; empty for `default_dtype`.
        engines: Number of engines, each in a process of its own and with `slots` sequences; 1 for one without that.
        cluster: Address of the cluster on which several engines are started, "" for this machine.
        urls: Servers of vLLM that sample in place of an engine that is started here; empty for none.

    Raises:
        ValueError: The engine is not installed, or cannot sample this model, or takes no devices.
    """
    if dtype == FAKE_FP8 and (name != "hf" or engines > 1):
        raise ValueError(f"--engine-dtype {FAKE_FP8}: only one engine hf emulates it; add --engine hf --engines 1")
    check_servers(urls, engine=name, engines=engines, devices=devices)
    if urls:
        return _open_servers(model, urls, slots, context, dtype)
    if engines > 1:
        from rl.policy.pool.opening import open_pool

        return open_pool(
            name,
            model,
            engines,
            slots=slots,
            context=context,
            devices=devices,
            dtype=dtype,
            is_trained=reserve_bytes is not None,
            cluster=cluster,
        )
    device_numbers = engine_devices(name, devices)
    if name.startswith("vllm"):
        from rl.policy.vllm.policy import VLLMPolicy

        return VLLMPolicy(
            model,
            slots=slots,
            context=context,
            reserve_bytes=reserve_bytes,
            following=following,
            separate_process=name.startswith(SEPARATE_PROCESS),
            devices=device_numbers,
            dtype=dtype,
            draws=name.rpartition(":")[2] if name.endswith(DRAWS) else "",
        )
    return _open_hf(model, slots, context, dtype)


def _open_servers(model: nn.Module, urls: Sequence[str], slots: int, context: int | None, dtype: str) -> Engine:
    from rl.policy.servers.policy import ServerPolicy

    return ServerPolicy(model, urls, slots=slots, context=context, dtype=dtype)


def _open_hf(model: nn.Module, slots: int, context: int | None, dtype: str) -> Engine:
    import torch

    from rl.policy.hf import HFPolicy

    computing = getattr(torch, torch_name(dtype)) if dtype else None
    return HFPolicy(model, slots=slots, context=context, dtype=computing, fake_fp8=dtype == FAKE_FP8)
