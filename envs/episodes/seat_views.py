"""The single-agent views of registered games, by names that Gymnasium can import and write to JSON.

`envs.episodes.seat_views:envs.multi.kuhn.Kuhn` is the view of `envs.multi.kuhn:Kuhn`: this module finds it by its path.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PREFIX = f"{__name__}:"


def view_entry_point(game: str) -> str:
    """Return the entry point of the single-agent view of a game, "module:Class"."""
    return PREFIX + game.replace(":", ".")


def game_entry_point(entry_point: str) -> str:
    """Return the "module:Class" of a game by the entry point of its view; any other is returned as it is."""
    if not entry_point.startswith(PREFIX):
        return entry_point
    module, _, name = entry_point.removeprefix(PREFIX).rpartition(".")
    return f"{module}:{name}"


def gymnasium_class(value: Any) -> Any:
    """Return the single-agent view of a class of several seats; any other value as it is."""
    single_agent = getattr(value, "single_agent", None)
    return single_agent() if isinstance(value, type) and callable(single_agent) else value


def __getattr__(path: str) -> Any:
    """The view of the game at `path`, "module.Class"."""
    module, dot, name = path.rpartition(".")
    if not dot:
        raise AttributeError(f"module {__name__!r} has no attribute {path!r}")
    return gymnasium_class(getattr(import_module(module), name))
