"""A small house to act in: rooms, one door, containers, things to carry; who may do what, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

CARRIED = -1  # the place of what the player carries
INSIDE = 100  # the place of what lies in container i is INSIDE + i; below that, places are rooms


class State(NamedTuple):
    """Where everything is. `shut` has bit i for a shut container i, and the bit after the last one for a shut door."""

    room: int
    places: tuple[int, ...]
    shut: int
    locked: bool


class Scene(NamedTuple):
    """What can be seen and done in a state.

    `text` tells all that is in the room, `brief` the `commands` that work instead; each leads to another state. `name`
    is the state's.
    """

    text: str
    brief: str
    commands: dict[str, State]
    name: str


@dataclass(frozen=True, slots=True)
class House:
    """What does not change. `items` begins with the one that is wanted and, if there is a lock, the key.

    `exits[room]` maps ways to rooms; `door` is the pair of rooms that it parts, or (); `containers` are pairs of a
    name and a room; the goal is that the wanted item is at the place `target`.
    """

    rooms: tuple[str, ...]
    exits: tuple[dict[str, int], ...]
    door: tuple[int, ...]
    containers: tuple[tuple[str, int], ...]
    items: tuple[str, ...]
    target: int
    start: State
    _scenes: dict[State, Scene] = field(default_factory=dict, repr=False, compare=False)

    @property
    def goal(self) -> str:
        """What is to be done: `take cup` or `put cup in box`."""
        if self.target == CARRIED:
            return f"take {self.items[0]}"
        return f"put {self.items[0]} in {self.containers[self.target - INSIDE][0]}"

    def done(self, state: State) -> bool:
        """Whether the goal is reached."""
        return state.places[0] == self.target

    def scene(self, state: State) -> Scene:
        """What there is in `state`; remembered, since members of a group come by the same states."""
        known = self._scenes.get(state)
        if known is None:
            commands = dict(self._commands(state))
            name = f"{state.room} {' '.join(map(str, state.places))} {state.shut:b} {'locked' * state.locked}".rstrip()
            known = self._scenes[state] = Scene(self._full(state), self._brief(state, list(commands)), commands, name)
        return known

    def useful(self, state: State) -> Iterator[tuple[str, State]]:
        """The commands that may be part of a shortest plan: no other item than the wanted one and the key matters."""
        fixed = state.places[1 + bool(self.start.locked) :]
        for command, after in self._commands(state):
            if after.places[-len(fixed) :] == fixed or not fixed:
                yield command, after

    def _commands(self, state: State) -> Iterator[tuple[str, State]]:
        room, places, shut, locked = state
        door = 1 << len(self.containers)
        for way, there in self.exits[room].items():
            if not (shut & door and {room, there} == {*self.door}):
                yield f"go {way}", state._replace(room=there)
        if shut & door and room in self.door:
            if not locked:
                yield "open door", state._replace(shut=shut & ~door)
            elif places[1] == CARRIED:
                yield "unlock door", state._replace(locked=False)
        reach = {room}
        for i, (name, where) in enumerate(self.containers):
            if where == room and shut >> i & 1:
                yield f"open {name}", state._replace(shut=shut & ~(1 << i))
            elif where == room:
                reach.add(INSIDE + i)
        for i, place in enumerate(places):
            if place in reach:
                yield f"take {self.items[i]}", _moved(state, i, CARRIED)
            elif place == CARRIED:
                for inside in sorted(reach - {room}):
                    yield f"put {self.items[i]} in {self.containers[inside - INSIDE][0]}", _moved(state, i, inside)

    def _brief(self, state: State, commands: list[str]) -> str:
        """The room, what no command tells, and the commands."""
        carried = [self.items[i] for i, place in enumerate(state.places) if place == CARRIED]
        parts = [self.rooms[state.room], *self._door(state), *([f"have {' '.join(carried)}"] if carried else [])]
        return f"{'; '.join(parts)}: {', '.join(commands)}"

    def _full(self, state: State) -> str:
        """The room with all that is in it, without the commands."""
        room, places, shut, _ = state
        ways = " ".join(self.exits[room])
        parts = [self.rooms[room], f"exits {ways}", *self._door(state)]
        for i, (name, where) in enumerate(self.containers):
            if where == room:
                inside = [item for item, place in zip(self.items, places, strict=True) if place == INSIDE + i]
                parts.append(f"{name} {'shut' if shut >> i & 1 else 'with ' + ' '.join(inside) if inside else 'empty'}")
        for word, place in (("here", room), ("have", CARRIED)):
            if found := [item for item, at in zip(self.items, places, strict=True) if at == place]:
                parts.append(f"{word} {' '.join(found)}")
        return "; ".join(parts)

    def _door(self, state: State) -> list[str]:
        """The door as seen from the room, if it is shut."""
        if state.room not in self.door or not state.shut >> len(self.containers):
            return []
        beyond = self.door[0] if state.room == self.door[1] else self.door[1]
        way = next(way for way, there in self.exits[state.room].items() if there == beyond)
        return [f"{way} door {'locked' if state.locked else 'shut'}"]


def _moved(state: State, item: int, place: int) -> State:
    return state._replace(places=(*state.places[:item], place, *state.places[item + 1 :]))


@lru_cache(maxsize=1024)
def house(blueprint: str) -> House:
    """The house of a blueprint, a JSON text with the fields of `House`; made once, since a group plays in the same."""
    plan: dict[str, Any] = json.loads(blueprint)
    room, places, shut, locked = plan["start"]
    return House(
        rooms=tuple(plan["rooms"]),
        exits=tuple(plan["exits"]),
        door=tuple(plan["door"]),
        containers=tuple((name, where) for name, where in plan["containers"]),
        items=tuple(plan["items"]),
        target=plan["target"],
        start=State(room, tuple(places), shut, locked),
    )
