"""What `--engine` and `--engine-devices` may say, known without importing torch."""

from __future__ import annotations

import argparse

ENGINES = ("hf", "vllm", "vllm:process")
APART = "vllm:process"


def device_list(text: str) -> str:
    """The type of a flag that names CUDA devices, as 1,2; the same without blanks."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isascii() and word.isdigit() for word in words):
        raise argparse.ArgumentTypeError("must be numbers of CUDA devices such as 1,2")
    if len({int(word) for word in words}) < len(words):
        raise argparse.ArgumentTypeError("names a device twice")
    return ",".join(words)


def devices(engine: str, listed: str) -> tuple[int, ...]:
    """The CUDA devices that `listed` names. Raises `ValueError` where the engine takes none."""
    if listed and engine != APART:
        raise ValueError(f"--engine-devices {listed}: only an engine of its own process has them; add --engine {APART}")
    return tuple(int(word) for word in listed.split(",") if word)
