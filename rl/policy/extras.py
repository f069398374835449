"""Optional packages, looked for without importing them."""

from __future__ import annotations

from importlib.util import find_spec


def check_peft() -> None:
    """Raise `ValueError`, in one line, where `peft` is missing."""
    if find_spec("peft") is None:
        raise ValueError("LoRA needs the package peft, which is not installed: pip install 'turnwise[lora]'")
