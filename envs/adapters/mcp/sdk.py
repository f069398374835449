"""The official SDK of the Model Context Protocol: its modules, if the package is there and new enough."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from envs.adapters.schemes import import_extra
from sandboxes.extras import install_command

OLDEST = (2, 2)  # version with `mcp.Client` and the servers that are used here; other projects need older ones


def sdk(module: str) -> ModuleType:
    """Import a module of the package `mcp`.

    Raises ImportError, which names the command that installs it, without the package or with one before `OLDEST`.
    """
    package = import_extra(module, "mcp")
    try:
        current = version("mcp")
    except PackageNotFoundError:  # a copy without metadata
        return package
    if tuple(map(int, re.findall(r"\d+", current)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(f"mcp {current} is installed, {oldest} or newer is needed: {install_command('mcp')}")
    return package
