"""Houses with something to do in them, drawn so that the shortest plan is as long as wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.games.house import CARRIED, INSIDE

NAMES = ("kitchen", "hall", "attic", "cellar", "study", "bath", "porch", "den", "shed")
CONTAINERS = ("box", "chest", "bag", "crate")
ITEMS = ("cup", "lamp", "book", "coin", "ball", "hat", "map", "rope")
WAYS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
BACK = {"north": "south", "east": "west", "south": "north", "west": "east"}
COMMANDS = (  # all that can be said in any of these houses
    *(f"go {way}" for way in WAYS),
    *(f"open {name}" for name in ("door", *CONTAINERS)),
    "unlock door",
    *(f"take {name}" for name in ("key", *ITEMS)),
    *(f"put {item} in {name}" for item in ("key", *ITEMS) for name in CONTAINERS),
)
QUESTS = 50  # tried in the same rooms before others are drawn

Exits = list[dict[str, int]]  # of each room: the way to the room it leads to
Pick = Callable[[int], int]  # a number below the one given


class Quest(NamedTuple):
    """Something to do: rooms of the containers, places of the wanted item and of the key if there is one, and so on.

    `length` counts the commands of the shortest plan.
    """

    start: int
    target: int
    containers: list[int]
    places: list[int]
    door: list[int]
    shut: int
    locked: bool
    length: int


def blueprint(rooms: int, length: int, clutter: int, rng: np.random.Generator) -> dict[str, Any]:
    """A house as `envs.games.house.house` reads it, whose shortest plan has `length` commands.

    `clutter` items that nobody needs lie about. It draws until it fits, so `length` must be one that occurs.
    """
    while True:
        exits = tree(rooms, _picker(rng, 4 * rooms))
        moves = [_distances(exits, room) for room in range(rooms)]
        for _ in range(QUESTS):
            found = quest(exits, moves, _picker(rng, 12))
            if found.length == length:
                return _named(exits, found, clutter, rng)


def quest(exits: Exits, moves: Sequence[Sequence[int]], pick: Pick) -> Quest:
    """Something to do in these rooms, a tree; `moves` are the distances between any two.

    Each part of the plan needs the one before: the key, the door, the item, its target. So the length is the sum of
    the ways between them and of the commands there.
    """
    rooms = len(exits)
    start, home = pick(rooms), pick(rooms)
    containers: list[int] = []
    places: list[int] = []
    length, shut, target = moves[start][home] + 1, 0, CARRIED
    if pick(2):  # put it into the first container, which may be shut
        to, shut = pick(rooms), pick(2)
        containers.append(to)
        target, length = INSIDE, length + moves[home][to] + 1 + shut

    def hide(room: int) -> int:
        """Put something down in `room`, with luck into a shut container; the commands that it costs."""
        nonlocal shut
        hidden = pick(2)
        places.append(INSIDE + len(containers) if hidden else room)
        if hidden:
            shut |= 1 << len(containers)
            containers.append(room)
        return hidden

    length += hide(home)
    door: list[int] = []
    locked = False
    if start != home and pick(2):
        path = _path(exits, moves, start, home)
        first = pick(len(path) - 1)
        door, length = path[first : first + 2], length + 1
        if locked := bool(pick(2)):
            near = [room for room in range(rooms) if moves[room][door[0]] < moves[room][door[1]]]
            room = near[pick(len(near))]
            length += 2 + hide(room) + moves[start][room] + moves[room][home] - moves[start][home]
    shut |= bool(door) << len(containers)
    return Quest(start, target, containers, places, door, shut, locked, length)


def tree(rooms: int, pick: Pick) -> Exits:
    """Rooms on a grid, each new one beside one that is there."""
    exits: Exits = [{}]
    at = {(0, 0): 0}
    while len(exits) < rooms:
        beside = [*at][pick(len(at))]
        free = [way for way, (down, right) in WAYS.items() if (beside[0] + down, beside[1] + right) not in at]
        if not free:
            beside, free = min(at), ["north"]  # nothing lies north of the northernmost room
        way = free[pick(len(free))]
        there = (beside[0] + WAYS[way][0], beside[1] + WAYS[way][1])
        exits[at[beside]][way] = at[there] = len(exits)
        exits.append({BACK[way]: at[beside]})
    return exits


def _named(exits: Exits, found: Quest, clutter: int, rng: np.random.Generator) -> dict[str, Any]:
    """The quest with names for all that is in it."""
    names = rng.permutation(NAMES)[: len(exits)].tolist()
    kinds = rng.permutation(CONTAINERS)[: len(found.containers)].tolist()
    items = rng.permutation(ITEMS)[: 1 + clutter].tolist()
    about = rng.integers(len(exits), size=clutter).tolist()
    return {
        "rooms": names,
        "exits": exits,
        "door": found.door,
        "containers": list(zip(kinds, found.containers, strict=True)),
        "items": [items[0], *["key"] * found.locked, *items[1:]],
        "target": found.target,
        "start": [found.start, found.places + about, found.shut, found.locked],
    }


def _picker(rng: np.random.Generator, draws: int) -> Pick:
    luck = iter(rng.random(draws).tolist())
    return lambda number: int(next(luck) * number)


def _distances(exits: Exits, room: int) -> list[int]:
    """How many moves each room is from `room`."""
    found = {room: 0}
    for here in (reached := [room]):
        fresh = [there for there in exits[here].values() if there not in found]
        found.update(dict.fromkeys(fresh, found[here] + 1))
        reached += fresh
    return [found[there] for there in range(len(exits))]


def _path(exits: Exits, moves: Sequence[Sequence[int]], start: int, end: int) -> list[int]:
    """The rooms on the way from `start` to `end`, both included."""
    path = [start]
    while path[-1] != end:
        path.append(min(exits[path[-1]].values(), key=moves[end].__getitem__))
    return path
