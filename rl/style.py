"""The wording that a run or an evaluation asks of its environment: the argument `style` of `envs.env.Env`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

import gymnasium

import envs
from envs.arguments import parameters
from envs.env import Env

KEY = "style"


def default_style(spec: str, env_args: Iterable[str], *, is_tiny: bool) -> str:
    """Return the style to play the environment `spec` in: "short" for the bundled model, "full" for any other.

    Returns "" where the `KEY=VALUE` texts `env_args` name one, and for an environment with one wording only.
    """
    if any(argument_key(text) == KEY for text in env_args) or not has_styles(spec):
        return ""
    return "short" if is_tiny else "full"


def has_styles(spec: str) -> bool:
    """Whether the environment `spec` words its texts differently in different styles. Raises ValueError for no name."""
    try:
        entry = envs.entry(spec)
    except gymnasium.error.Error:  # it lacks a dependency, which is reported where it is made
        return False
    if not isinstance(entry, type):
        return KEY in (parameters(entry) or {})
    own = [vars(cls)["__init__"] for cls in entry.__mro__ if "__init__" in vars(cls) and cls is not Env]
    has_own_argument = any(KEY in inspect.signature(constructor).parameters for constructor in own)
    has_guide = getattr(entry, "guide", Env.guide) is not Env.guide
    return has_own_argument or (has_guide and KEY in (parameters(entry) or {}))


def with_style(env_args: Sequence[str], style: str) -> list[str]:
    """Return `env_args` with a style added; "" adds none."""
    return [*env_args, f"{KEY}={style}"] if style else [*env_args]


def argument_key(text: str) -> str:
    """Return the key of `KEY=VALUE`, with underscores for dashes."""
    return text.partition("=")[0].strip().replace("-", "_")
