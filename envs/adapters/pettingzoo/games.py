"""Find a PettingZoo game by its name, and make the class that plays it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from itertools import takewhile
from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from envs.adapters.game_text import description, shorten
from envs.adapters.named_function import load_function
from envs.adapters.pettingzoo.classic_games import CLASSIC_GAMES
from envs.adapters.pettingzoo.game import PettingZooGame
from envs.adapters.pettingzoo.game_words import GameWords
from envs.multi.seat_names import check_seats
from envs.multi.seat_view import SeatView, seat_view
from envs.suggestions import unknown_message
from envs.watchdog import WATCHDOG
from sandboxes.extras import install_command

CLASSIC = "pettingzoo.classic"


@cache
def view_of(name: str) -> type[SeatView]:
    """Return the class that plays a game: its single-agent view, whose `game` is the class of several seats.

    Args:
        name: A module of `pettingzoo.classic`, such as "connect_four_v3"; another module with a function `env` or
            `parallel_env`, such as "mygames.duel_v0"; or a function that returns a game, as "module:function" or
            "path/file.py:function".

    Raises:
        ValueError: There is no such game, what is there is none, or one of its agents has a name that no seat can have.
        ImportError: A package that the game needs is not installed.
    """
    make_game, seats, goal = WATCHDOG.load_call(f"pettingzoo:{name}: its import", _open, name)
    words = CLASSIC_GAMES.get(re.sub(r"_v\d+$", "", name), GameWords(goal))
    members = {
        "name": name,
        "make_game": staticmethod(make_game),
        "words": words,
        "seats": seats,
        "teammates": words.teammates,
        "__module__": PettingZooGame.__module__,
        "__doc__": PettingZooGame.__doc__,
        "revive": staticmethod(_bare_game),
    }
    view = seat_view(type("PettingZooGame", (PettingZooGame,), members))
    view.__reduce__ = lambda self: (_bare_view, (name,), vars(self))  # type: ignore[method-assign]
    return view


def _open(name: str) -> tuple[Callable[..., AECEnv], tuple[str, ...], str]:
    """Return the function that makes the game, its seats, and what it says about itself."""
    make_game = _find(name)
    try:
        game = make_game()
    except (ValueError, ImportError):
        raise
    except Exception as error:
        raise ValueError(f"pettingzoo:{name} cannot be made: {type(error).__name__}: {error}") from error
    seats = tuple(check_seats([*game.possible_agents], f"pettingzoo:{name}"))
    goal = _own_goal(game, name)
    game.close()
    return make_game, seats, goal


def _own_goal(game: AECEnv, name: str) -> str:
    """The paragraph "Description" of the docstring of the game's class, else its first paragraph, else its name.

    Docstrings of PettingZoo's own classes say nothing about a game.
    """
    classes = takewhile(lambda base: not base.__module__.startswith("pettingzoo."), type(game.unwrapped).__mro__)
    docstring = inspect.cleandoc(next((text for base in classes if (text := vars(base).get("__doc__"))), ""))
    goal = description(docstring) or shorten(docstring.partition("\n\n")[0])
    metadata = getattr(game, "metadata", None) or {}
    goal = goal or f"You play {metadata.get('name') or name.rpartition(':')[2]}"
    return goal if goal[-1] in ".!?" else f"{goal}."


def _find(name: str) -> Callable[..., AECEnv]:
    """Return the function that makes a game of seats that move one after another."""
    make: Callable[..., Any] | None
    if ":" in name:
        make = load_function(name)
    else:
        module_name = name if "." in name else f"{CLASSIC}.{name}"
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            raise _missing(name, module_name, error) from None
        make = getattr(module, "env", None) or getattr(module, "parallel_env", None)
        if make is None:
            raise ValueError(f"pettingzoo:{name}: the module has neither a function env nor parallel_env")

    def make_game(**arguments: Any) -> AECEnv:
        game = make(**arguments)
        if isinstance(game, ParallelEnv):
            game = parallel_to_aec(game)
        if not isinstance(game, AECEnv):
            raise ValueError(f"pettingzoo:{name} made {type(game).__name__}, which is no game of PettingZoo")
        if not getattr(game, "possible_agents", None):
            raise ValueError(f"pettingzoo:{name} has no possible_agents, so its seats are unknown")
        return game

    return make_game


def _missing(name: str, module_name: str, error: ModuleNotFoundError) -> Exception:
    """What to raise for a module that cannot be imported: unknown, or something that it needs is not installed."""
    if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
        path = importlib.import_module(CLASSIC).__path__ if module_name.startswith(CLASSIC) else []
        games = [module.name for module in pkgutil.iter_modules(path) if re.search(r"_v\d+$", module.name)]
        return ValueError(unknown_message("game", name, games, of=module_name.rpartition(".")[0]))
    return ImportError(f"pettingzoo:{name} needs {error.name}: {install_command('classic')}")


def _bare_game(name: str) -> PettingZooGame:
    game: Any = view_of(name).game
    return game.__new__(game)


def _bare_view(name: str) -> SeatView:
    view = view_of(name)
    return view.__new__(view)
