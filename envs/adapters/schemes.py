"""Resolve `SCHEME:NAME` to the class that plays it: of another project, or around environments of this one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from types import ModuleType

from envs.env import Env
from sandboxes.extras import install_command

# Of each scheme a class that takes the name as its first argument, or a function that returns a class for a name.
SCHEMES = {
    "gymnasium": "envs.adapters.gymnasium:GymnasiumEnv",
    "pettingzoo": "envs.adapters.pettingzoo.games:view_of",
    "gem": "envs.adapters.gem:GemEnv",
    "verifiers": "envs.adapters.verifiers:VerifiersEnv",
    "openenv": "envs.adapters.openenv:OpenEnvEnv",
    "mcp": "envs.adapters.mcp.tools_env:MCPEnv",
    "webarena": "envs.web.webarena.webarena:WebArena",
    "browsergym": "envs.adapters.browsergym:BrowserGymEnv",
    "simulated": "envs.simulated.simulated:Simulated",
    "chain": "envs.episodes.chain:Chain",
    "variants": "envs.episodes.variants:Variants",
    "transitions": "envs.simulated.transitions:Transitions",
}


def resolve(spec: str) -> partial[Env] | type[Env] | None:
    """Return what makes the environment `spec`, such as "gymnasium:CartPole-v1"; None if it has no known scheme.

    The other project is imported only where its class depends on the name. Raises ValueError for a scheme without a
    name.
    """
    scheme, colon, name = spec.partition(":")
    if not colon or scheme not in SCHEMES:
        return None
    if not name:
        raise ValueError(f"{spec!r} names no environment; see docs/adapters.md for what stands behind {scheme!r}")
    module, attribute = SCHEMES[scheme].split(":")
    target = getattr(importlib.import_module(module), attribute)
    return partial(target, name) if isinstance(target, type) else target(name)


def change_path(spec: str, change: Callable[[str], str]) -> str:
    """Return the name of an environment or recipe with the path of a file in it replaced by what `change` makes of it.

    `mine.py:Game`, `mine.py` and `mcp:mine.py:make` hold a path; `math/Arithmetic-v0`, `package.module:Name-v0`, `grpo`
    and `mcp:python server.py`, a command, do not and are returned unchanged.
    """
    scheme, colon, name = spec.partition(":")
    if colon and scheme in SCHEMES:
        return spec if any(map(str.isspace, name)) else f"{scheme}:{change_path(name, change)}"
    path, suffix, name = spec.rpartition(".py:")
    if suffix:
        return f"{change(path + '.py')}:{name}"
    return change(spec) if spec.endswith(".py") else spec


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module of the package that `extra` installs. Raises ImportError, which names the command, without it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: {install_command(extra)} ({error})") from None
