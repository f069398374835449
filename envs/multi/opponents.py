"""Who plays the other seats of a single-agent view: `random`, `oracle`, `noop`, a player of the game, or a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from envs.arguments import convert
from envs.multi.multi_env import MultiEnv
from envs.suggestions import unknown_message
from envs.types import Message, assistant

Opponent = Callable[[MultiEnv, str, np.random.Generator], Message | str]
COMMON_PLAYERS = ("random", "oracle", "noop")


def make_opponent(spec: str | Opponent, game: type[MultiEnv]) -> Opponent:
    """Return the player that `spec` names.

    Args:
        spec: `NAME` or `NAME:key=value,key=value`, where NAME is random, oracle, noop or one of `game.players`;
            `path/to/file.py:function`; or a function. A function takes the environment, the seat that is to move and
            a generator, and returns a reply.
        game: Class of the environment.

    Raises:
        ValueError: There is no such player, option or function.
    """
    if callable(spec):
        return spec
    if not isinstance(spec, str):
        names = ", ".join((*COMMON_PLAYERS, *game.players))
        raise ValueError(f"opponent {spec!r:.80} of {game.__name__}: must be a name ({names}) or a function")
    name, _, words = spec.partition(":")
    if name.endswith(".py"):
        return _function_of_file(name, words)
    if name not in (*COMMON_PLAYERS, *game.players):
        raise ValueError(unknown_message("opponent", name, (*COMMON_PLAYERS, *game.players), of=game.__name__))
    method = getattr(game, game.players.get(name, name))
    options = _parse_options(words, method, name)
    if name == "random":
        return _play_random
    if name in COMMON_PLAYERS:
        return partial(_play_common, name=name)
    return partial(_play_method, name=game.players[name], options=options)


# These are functions with names, so that an opponent can be sent to another process.


def _play_random(env: MultiEnv, seat: str, rng: np.random.Generator) -> Message:
    return env.random(seat, rng)


def _play_common(env: MultiEnv, seat: str, rng: np.random.Generator, *, name: str) -> Message:
    return getattr(env, name)(seat)


def _play_method(
    env: MultiEnv, seat: str, rng: np.random.Generator, *, name: str, options: Mapping[str, Any]
) -> Message | str:
    return getattr(env, name)(seat, rng, **options)


def _play_function(env: MultiEnv, seat: str, rng: np.random.Generator, *, path: str, name: str) -> Message:
    from sandboxes.source_files import load_source_file

    reply = getattr(load_source_file(path), name)(env, seat, rng)
    return assistant(reply) if isinstance(reply, str) else reply


def _keyword_options(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(method).parameters
    return {key: value for key, value in parameters.items() if value.kind is value.KEYWORD_ONLY}


def _parse_options(words: str, method: Callable[..., Any], name: str) -> dict[str, Any]:
    """Parse `key=value,key=value` into the keyword-only options of a method, by the types of their defaults."""
    defaults = _keyword_options(method)
    options = {}
    for word in filter(None, words.split(",")):
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"opponent {name}: {word!r} is not of the form key=value")
        if key not in defaults:
            raise ValueError(unknown_message("option", key, defaults, of=f"opponent {name}"))
        if key in options:
            raise ValueError(f"opponent {name}: {key}={value}: {key} is given twice; give it once")
        try:
            options[key] = convert(value, type(defaults[key].default))
        except ValueError as error:
            raise ValueError(f"opponent {name}: {key}={value}: {error}") from None
    return options


def _function_of_file(path: str, name: str) -> Opponent:
    from sandboxes.source_files import load_source_file  # imports the package `sandboxes`, which few commands need

    module = load_source_file(path)
    if not callable(getattr(module, name, None)):
        functions = inspect.getmembers(module, inspect.isfunction)
        own = [key for key, value in functions if value.__module__ == module.__name__]
        if not name:
            example = f"{path}:{own[0] if own else 'function'}"
            raise ValueError(f"opponent {path}: a file of functions; name one of them, as {example}")
        raise ValueError(f"opponent {path}:{name}: {unknown_message('function', name, own, of=path)}")
    return partial(_play_function, path=path, name=name)
