"""Random houses with a task whose shortest plan has a given number of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.games.house import FIRST_CONTAINER, INVENTORY

ROOM_NAMES = ("kitchen", "hall", "attic", "cellar", "study", "bath", "porch", "den", "shed")
CONTAINERS = ("box", "chest", "bag", "crate")
ITEMS = ("cup", "lamp", "book", "coin", "ball", "hat", "map", "rope")
WAYS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
BACK = {"north": "south", "east": "west", "south": "north", "west": "east"}
COMMANDS = (  # every command that may work in some house
    *(f"go {way}" for way in WAYS),
    *(f"open {name}" for name in ("door", *CONTAINERS)),
    "unlock door",
    *(f"take {name}" for name in ("key", *ITEMS)),
    *(f"put {item} in {name}" for item in ("key", *ITEMS) for name in CONTAINERS),
)
QUESTS_PER_HOUSE = 50  # quests tried in the same rooms before new rooms are drawn

Exits = list[dict[str, int]]  # for each room: direction -> index of the room there
Pick = Callable[[int], int]  # pick(n) is a random number below n


class Quest(NamedTuple):
    """A task in a house. Rooms and places are numbers as in `envs.games.house`.

    Attributes:
        start: Room of the player.
        target: Place that the wanted item must reach.
        containers: Room of each container.
        places: Place of the wanted item and, if there is a lock, of the key.
        door: The two rooms that a door separates; empty without a door.
        shut: Bit i is set if container i is shut; the bit after the last container is the door.
        is_locked: Whether the door is locked.
        length: Number of commands of the shortest plan.
    """

    start: int
    target: int
    containers: list[int]
    places: list[int]
    door: list[int]
    shut: int
    is_locked: bool
    length: int


def draw_blueprint(rooms: int, length: int, clutter: int, rng: np.random.Generator) -> dict[str, Any]:
    """Draw a house, in the form that `envs.games.house.build_house` reads, whose shortest plan has `length` commands.

    Args:
        rooms: Number of rooms.
        length: Number of commands. Draws are repeated until it fits, so it must be one that occurs with these rooms.
        clutter: Number of items that no plan needs.
        rng: Generator of all draws.
    """
    while True:
        exits = draw_exits(rooms, _random_picker(rng, 4 * rooms))
        distances = [_distances(exits, room) for room in range(rooms)]
        for _ in range(QUESTS_PER_HOUSE):
            plan = draw_quest(exits, distances, _random_picker(rng, 12))
            if plan.length == length:
                return _name_everything(exits, plan, clutter, rng)


def draw_quest(exits: Exits, distances: Sequence[Sequence[int]], pick: Pick) -> Quest:
    """Draw a task in rooms that form a tree; `distances[a][b]` is the number of moves from room a to room b.

    Each part of the plan requires the one before: the key, the door, the item, its target. So the length of the plan is
    the sum of the distances between them and of the commands at each of them.
    """
    rooms = len(exits)
    start, item_room = pick(rooms), pick(rooms)
    containers: list[int] = []
    places: list[int] = []
    length, shut, target = distances[start][item_room] + 1, 0, INVENTORY
    if pick(2):  # the item must go into the first container, which may be shut
        container_room, shut = pick(rooms), pick(2)
        containers.append(container_room)
        target, length = FIRST_CONTAINER, length + distances[item_room][container_room] + 1 + shut

    def hide(room: int) -> int:
        """Place an object in `room`, half of the time in a shut container; return the number of extra commands."""
        nonlocal shut
        hidden = pick(2)
        places.append(FIRST_CONTAINER + len(containers) if hidden else room)
        if hidden:
            shut |= 1 << len(containers)
            containers.append(room)
        return hidden

    length += hide(item_room)
    door: list[int] = []
    is_locked = False
    if start != item_room and pick(2):
        path = _path(exits, distances, start, item_room)
        first = pick(len(path) - 1)
        door, length = path[first : first + 2], length + 1
        if is_locked := bool(pick(2)):
            near = [room for room in range(rooms) if distances[room][door[0]] < distances[room][door[1]]]
            room = near[pick(len(near))]
            length += 2 + hide(room) + distances[start][room] + distances[room][item_room] - distances[start][item_room]
    shut |= bool(door) << len(containers)
    return Quest(start, target, containers, places, door, shut, is_locked, length)


def draw_exits(rooms: int, pick: Pick) -> Exits:
    """Draw the exits of `rooms` rooms on a grid; each new room is next to one of the earlier rooms."""
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


def _name_everything(exits: Exits, quest: Quest, clutter: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the house as a dict, with random names for its rooms, containers and items."""
    names = rng.permutation(ROOM_NAMES)[: len(exits)].tolist()
    kinds = rng.permutation(CONTAINERS)[: len(quest.containers)].tolist()
    items = rng.permutation(ITEMS)[: 1 + clutter].tolist()
    clutter_rooms = rng.integers(len(exits), size=clutter).tolist()
    return {
        "rooms": names,
        "exits": exits,
        "door": quest.door,
        "containers": list(zip(kinds, quest.containers, strict=True)),
        "items": [items[0], *["key"] * quest.is_locked, *items[1:]],
        "target": quest.target,
        "start": [quest.start, quest.places + clutter_rooms, quest.shut, quest.is_locked],
    }


def _random_picker(rng: np.random.Generator, draws: int) -> Pick:
    uniforms = iter(rng.random(draws).tolist())
    return lambda number: int(next(uniforms) * number)


def _distances(exits: Exits, room: int) -> list[int]:
    """Return the number of moves from `room` to each room."""
    distance = {room: 0}
    for here in (queue := [room]):
        fresh = [there for there in exits[here].values() if there not in distance]
        distance.update(dict.fromkeys(fresh, distance[here] + 1))
        queue += fresh
    return [distance[there] for there in range(len(exits))]


def _path(exits: Exits, distances: Sequence[Sequence[int]], start: int, end: int) -> list[int]:
    """Return the rooms on the path from `start` to `end`, both included."""
    path = [start]
    while path[-1] != end:
        path.append(min(exits[path[-1]].values(), key=distances[end].__getitem__))
    return path
