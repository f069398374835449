"""Resolve `SCHEME:NAME` to the class that plays it: of another project, simulated, or a chain of tasks."""

from __future__ import annotations

import importlib
from functools import partial
from types import ModuleType

from envs.env import Env
from sandboxes.extras import install_command

SCHEMES = {  # "module:Class" of each scheme; the class takes the name as its first argument
    "gymnasium": "envs.adapters.gymnasium:GymnasiumEnv",
    "gem": "envs.adapters.gem:GemEnv",
    "verifiers": "envs.adapters.verifiers:VerifiersEnv",
    "openenv": "envs.adapters.openenv:OpenEnvEnv",
    "mcp": "envs.adapters.mcp.tools_env:MCPEnv",
    "simulated": "envs.simulated.simulated:Simulated",
    "chain": "envs.episodes.chain:Chain",
    "transitions": "envs.simulated.transitions:Transitions",
}


def resolve(spec: str) -> partial[Env] | None:
    """Return what makes the environment `spec`, such as "gymnasium:CartPole-v1"; None if it has no known scheme.

    Nothing of the other project is imported. Raises ValueError for a scheme without a name.
    """
    scheme, colon, name = spec.partition(":")
    if not colon or scheme not in SCHEMES:
        return None
    if not name:
        raise ValueError(f"{spec!r} names no environment; see docs/adapters.md for what stands behind {scheme!r}")
    module, class_name = SCHEMES[scheme].split(":")
    return partial(getattr(importlib.import_module(module), class_name), name)


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module of the package that `extra` installs. Raises ImportError, which names the command, without it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: {install_command(extra)} ({error})") from None
