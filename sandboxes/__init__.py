"""Places for code that nobody trusts: `sandboxes.open("local")`."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from sandboxes.types import (
    Limits,
    ReplayDiverged,
    Result,
    Sandbox,
    SandboxBusy,
    SandboxClosed,
    SandboxDied,
    SandboxError,
    SandboxUnavailable,
    Session,
    Shelter,
    Status,
)

__all__ = [
    "PROVIDERS",
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
    "Shelter",
    "Status",
    "open",
    "provider",
]

PROVIDERS = {
    "local": "sandboxes.local.provider:Local",
    "docker": "sandboxes.docker.provider:Docker",
    "remote": "sandboxes.remote.provider:Remote",
}
TIERS = ("namespaces", "landlock", "process")  # the kinds of "local"


def provider(name: str) -> str:
    """Where the class of a sandbox's provider is, as "module:Class".

    Raises ValueError for an unknown name, or an unknown tier of "local".
    """
    wanted, _, kind = name.partition(":")
    if wanted not in PROVIDERS:
        near = get_close_matches(wanted, PROVIDERS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(PROVIDERS)}"
        raise ValueError(f"no sandbox {name!r}{hint}")
    if wanted == "local" and kind and kind not in TIERS:
        raise ValueError(f"local: no tier {kind!r}; there are {', '.join(TIERS)}")
    return PROVIDERS[wanted]


def open(name: str = "local", **options: Any) -> Sandbox:
    """A sandbox by the name of its provider: "local", "docker"; with a kind, "local:landlock", "docker:python:3.13".

    The kind is a tier, or the image of containers. Raises ValueError for an unknown name, SandboxUnavailable where this
    machine lacks something.
    """
    module, _, cls = provider(name).partition(":")
    kind = name.partition(":")[2]
    return getattr(import_module(module), cls)(*[kind] if kind else [], **options)
