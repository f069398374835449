"""Sandboxes for untrusted code: `sandboxes.open("local")`."""

from __future__ import annotations

from typing import Any

from sandboxes.provider import Sandbox, Session
from sandboxes.types import (
    Isolation,
    Limits,
    ReplayDiverged,
    Result,
    SandboxBusy,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
    Status,
)

__all__ = [
    "Isolation",
    "Limits",
    "ReplayDiverged",
    "Result",
    "Sandbox",
    "SandboxBusy",
    "SandboxClosed",
    "SandboxDied",
    "SandboxError",
    "SandboxUnavailable",
    "Session",
    "Status",
    "open",
]


def open(name: str = "local", **options: Any) -> Sandbox:
    """Open a sandbox by the name of its provider.

    Args:
        name: "local", "docker" or "remote", the name that an installed package registered, "module:Class", or
            "path/to/file.py:Class"; each may be followed by ":" and a kind, as in "local:landlock" (a tier) or
            "docker:python:3.13" (an image).
        options: Keyword arguments of the provider's class.

    Raises:
        ValueError: There is no such provider, tier or option, or its class lacks a member of `Sandbox`.
        SandboxUnavailable: This machine lacks something that the provider needs.
    """
    # Imported here: the zygote of `local` imports this package, and candidates inherit what it has loaded.
    from sandboxes import registry

    return registry.open_sandbox(name, options)
