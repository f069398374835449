"""Checks for optional packages, without importing them."""

from __future__ import annotations

from importlib.util import find_spec


def check_peft() -> None:
    """Raise `ValueError` if `peft` is not installed."""
    if find_spec("peft") is None:
        raise ValueError("LoRA needs the package peft, which is not installed: pip install 'turnwise-rl[lora]'")
