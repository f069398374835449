"""Optional packages: checks whether they are installed, and their import."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sandboxes.extras import install_command


def check_peft() -> None:
    """Raise `ValueError` if `peft` is not installed."""
    if find_spec("peft") is None:
        raise ValueError(f"LoRA needs the package peft, which is not installed: {install_command('lora')}")


def check_installed(module: str, extra: str) -> None:
    """Raise `ImportError` naming the extra if an optional module is not installed, without importing it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:  # a folder of that name, such as the one that wandb writes
        raise ImportError(f"{module} is not installed: {install_command(extra)}")


def require(module: str, extra: str) -> Any:
    """Import and return an optional module. Raises `ImportError` naming the extra that installs it."""
    try:
        package = import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: {install_command(extra)} ({error})") from error
    if getattr(package, "__file__", None) is None:  # a folder of that name, such as the one that wandb writes
        raise ImportError(f"{module} is not installed: {install_command(extra)}")
    return package
