"""What a language model must read about a Gymnasium game: the goal, the names, the legend; for games known by name."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium

from envs.adapters import minigrid
from envs.adapters.game_text import GameText, description

_TAXI = ("south", "north", "east", "west", "pickup", "dropoff")
_TAXI_LEGEND = (
    "The number encodes the state as ((row * 5 + column) * 5 + passenger) * 4 + destination; rows and columns count "
    "from 0 at the top left of a map of 5 by 5 cells. Passenger and destination are 0 red (row 0, column 0), 1 green "
    "(row 0, column 4), 2 yellow (row 4, column 0), 3 blue (row 4, column 3); passenger 4 is in the taxi."
)

KNOWN_GAMES = {  # by the name of the id, without its version
    "CartPole": GameText(
        "A pole stands on a cart that moves along a track. Push the cart so that the pole does not fall over: the game "
        "is lost if the pole tilts more than 0.21 radians or the cart moves further than 2.4 from the centre.",
        "Positions to the right and tilts to the right are positive.",
        ("left", "right"),
        ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
        "last",
    ),
    "MountainCar": GameText(
        "A car stands in a valley between two hills, and its engine is too weak to climb the right one directly. Swing "
        "back and forth to build up speed and reach position 0.5 on the right.",
        "The valley's lowest point is at about -0.52; positive velocity is to the right.",
        ("left", "coast", "right"),
        ("position", "velocity"),
        "end",
    ),
    "Acrobot": GameText(
        "Two links hang from a pivot, and you control the joint between them. Swing the free end of the lower link up "
        "to one link's length above the pivot.",
        "Angle 1 is that of the upper link from straight down, angle 2 that of the lower link relative to the upper.",
        ("negative", "none", "positive"),
        ("cos 1", "sin 1", "cos 2", "sin 2", "angular velocity 1", "angular velocity 2"),
        "end",
    ),
    "FrozenLake": GameText(
        "You stand on a frozen lake, a square grid with holes. Walk from the top left cell to the bottom right one; "
        "the ice is slippery, so a move may take you sideways, and a hole ends the game.",
        "The number is row * columns + column, counted from 0 at the top left.",
        ("left", "down", "right", "up"),
        ("cell",),
    ),
    "CliffWalking": GameText(
        "Walk on a grid of 4 rows and 12 columns from the bottom left cell to the bottom right one. The cells between "
        "them are a cliff: stepping on one brings you back to the start.",
        "The number is row * 12 + column, counted from 0 at the top left.",
        ("up", "right", "down", "left"),
        ("cell",),
        "end",
    ),
    "Taxi": GameText(
        "Drive to the passenger, pick them up, drive to their destination and drop them off. Walls stand in the way.",
        _TAXI_LEGEND,
        _TAXI,
        ("state",),
    ),
    "Blackjack": GameText(
        "Play one hand of blackjack against a dealer: get closer to 21 than the dealer without going over.",
        "A usable ace, 1 if you have one, counts as 11 without going over 21.",
        ("stick", "hit"),
        ("your sum", "dealer's card", "usable ace"),
    ),
}


def known_text(game: gymnasium.Env) -> GameText:
    """Return the texts for a game: ours if it is known, else what its class says about itself."""
    world: Any = game.unwrapped
    if any(cls.__module__.startswith("minigrid.") for cls in type(world).__mro__):
        return minigrid.game_text(world)
    name = world.spec.name if world.spec else ""
    if world.spec and world.spec.namespace is None and name in KNOWN_GAMES:
        return KNOWN_GAMES[name]
    return GameText(goal=description(inspect.getdoc(type(world)) or ""), actions=_action_names(world))


def _action_names(world: Any) -> tuple[str, ...]:
    """Names that the class gives its actions: an enum `actions`, or a method `get_action_meanings`."""
    if not isinstance(world.action_space, gymnasium.spaces.Discrete):
        return ()
    names: tuple[str, ...] = ()
    if isinstance(getattr(world, "actions", None), type):
        names = tuple(getattr(member, "name", "") for member in world.actions)
    elif hasattr(world, "get_action_meanings"):
        names = tuple(str(name).lower() for name in world.get_action_meanings())
    return names if len(set(names)) == len(names) == int(world.action_space.n) and all(names) else ()
