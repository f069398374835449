"""A simulated house with rooms, a door, containers and items: which commands work in a state and what they change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from envs.episodes.guide import listing

INVENTORY = -1  # the place of items that the player carries
FIRST_CONTAINER = 100  # items in container i have the place FIRST_CONTAINER + i; smaller places are rooms


class State(NamedTuple):
    """A state of the house.

    Attributes:
        room: Room of the player.
        places: Place of each item: a room, a container or `INVENTORY`.
        shut: Bit i is set if container i is shut; the bit after the last container is the door.
        is_locked: Whether the door is locked.
    """

    room: int
    places: tuple[int, ...]
    shut: int
    is_locked: bool


class Scene(NamedTuple):
    """Descriptions and commands of a state.

    Attributes:
        text: The room with everything in it, without the commands.
        brief: The room with the commands that work, instead of its contents.
        commands: The commands that work, each with the state it leads to.
        name: Text that identifies the state.
    """

    text: str
    brief: str
    commands: dict[str, State]
    name: str


@dataclass(frozen=True, slots=True)
class House:
    """The fixed parts of a house, and its initial state.

    Attributes:
        rooms: Names of the rooms.
        exits: For each room, directions and the rooms they lead to.
        door: The pair of rooms that the door separates; empty without a door.
        containers: Name and room of each container.
        items: Names of the items: the wanted item, then the key if there is a lock, then the others.
        target: Place where the wanted item must be.
        start: Initial state.
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
        """The task as a command: `take cup` or `put cup in box`."""
        if self.target == INVENTORY:
            return f"take {self.items[0]}"
        return f"put {self.items[0]} in {self.containers[self.target - FIRST_CONTAINER][0]}"

    def is_done(self, state: State) -> bool:
        """Whether the wanted item is at its target."""
        return state.places[0] == self.target

    def scene(self, state: State) -> Scene:
        """Return the texts of `state`, full and brief, and the commands that work there with the states they lead to.

        Cached, because the episodes of a group visit the same states.
        """
        scene = self._scenes.get(state)
        if scene is None:
            commands = dict(self._commands(state))
            name = (
                f"{state.room} {' '.join(map(str, state.places))} {state.shut:b} {'locked' * state.is_locked}".rstrip()
            )
            scene = self._scenes[state] = Scene(
                self._full_text(state), self._brief_text(state, list(commands)), commands, name
            )
        return scene

    def sentences(self, state: State, *, with_commands: bool) -> str:
        """Describe a state in sentences: the room, what is in it or the commands that work, and the items carried."""
        room, places, shut, _ = state
        sentences = [f"You are in the {self.rooms[room]}.", *(f"The {text}." for text in _are(self._door_text(state)))]
        inventory = [item for item, place in zip(self.items, places, strict=True) if place == INVENTORY]
        if not with_commands:
            sentences.append(f"There are exits to the {listing(self.exits[room])}.")
            for i, (name, where) in enumerate(self.containers):
                if where == room:
                    inside = [self.items[n] for n, place in enumerate(places) if place == FIRST_CONTAINER + i]
                    content = f"holds: {', '.join(inside)}" if inside else "is open and empty"
                    sentences.append(f"The {name} {'is shut' if shut >> i & 1 else content}.")
            here = [item for item, place in zip(self.items, places, strict=True) if place == room]
            sentences += [f"Lying here: {', '.join(here)}."] if here else []
        sentences.append(f"You carry: {', '.join(inventory) or 'nothing'}.")
        if with_commands:
            sentences.append(f"Commands that work now: {', '.join(self.scene(state).commands)}.")
        return " ".join(sentences)

    def useful_commands(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield the commands that may be part of a shortest plan: they move no item but the wanted one and the key."""
        fixed = state.places[1 + bool(self.start.is_locked) :]
        for command, after in self._commands(state):
            if after.places[-len(fixed) :] == fixed or not fixed:
                yield command, after

    def _commands(self, state: State) -> Iterator[tuple[str, State]]:
        room, places, shut, is_locked = state
        door = 1 << len(self.containers)
        for way, there in self.exits[room].items():
            if not (shut & door and {room, there} == {*self.door}):
                yield f"go {way}", state._replace(room=there)
        if shut & door and room in self.door:
            if not is_locked:
                yield "open door", state._replace(shut=shut & ~door)
            elif places[1] == INVENTORY:
                yield "unlock door", state._replace(is_locked=False)
        reach = {room}
        for i, (name, where) in enumerate(self.containers):
            if where == room and shut >> i & 1:
                yield f"open {name}", state._replace(shut=shut & ~(1 << i))
            elif where == room:
                reach.add(FIRST_CONTAINER + i)
        for i, place in enumerate(places):
            if place in reach:
                yield f"take {self.items[i]}", _move_item(state, i, INVENTORY)
            elif place == INVENTORY:
                for inside in sorted(reach - {room}):
                    yield (
                        f"put {self.items[i]} in {self.containers[inside - FIRST_CONTAINER][0]}",
                        _move_item(state, i, inside),
                    )

    def _brief_text(self, state: State, commands: list[str]) -> str:
        """Describe the room by what the commands do not reveal, then the commands."""
        inventory = [self.items[i] for i, place in enumerate(state.places) if place == INVENTORY]
        parts = [
            self.rooms[state.room],
            *self._door_text(state),
            *([f"have {' '.join(inventory)}"] if inventory else []),
        ]
        return f"{'; '.join(parts)}: {', '.join(commands)}"

    def _full_text(self, state: State) -> str:
        """Describe the room with everything in it, without the commands."""
        room, places, shut, _ = state
        ways = " ".join(self.exits[room])
        parts = [self.rooms[room], f"exits {ways}", *self._door_text(state)]
        for i, (name, where) in enumerate(self.containers):
            if where == room:
                inside = [item for item, place in zip(self.items, places, strict=True) if place == FIRST_CONTAINER + i]
                parts.append(f"{name} {'shut' if shut >> i & 1 else 'with ' + ' '.join(inside) if inside else 'empty'}")
        for word, place in (("here", room), ("have", INVENTORY)):
            if contents := [item for item, at in zip(self.items, places, strict=True) if at == place]:
                parts.append(f"{word} {' '.join(contents)}")
        return "; ".join(parts)

    def _door_text(self, state: State) -> list[str]:
        """Return the description of a shut door of the room; an empty list if there is none."""
        if state.room not in self.door or not state.shut >> len(self.containers):
            return []
        beyond = self.door[0] if state.room == self.door[1] else self.door[1]
        way = next(way for way, there in self.exits[state.room].items() if there == beyond)
        return [f"{way} door {'locked' if state.is_locked else 'shut'}"]


def _are(door_text: list[str]) -> list[str]:
    """Turn `north door locked` into `north door is locked`."""
    return [" is ".join(text.rsplit(" ", 1)) for text in door_text]


def _move_item(state: State, item: int, place: int) -> State:
    return state._replace(places=(*state.places[:item], place, *state.places[item + 1 :]))


@lru_cache(maxsize=1024)
def build_house(blueprint: str) -> House:
    """Build the house of a JSON text with the fields of `House`.

    Cached, because a group of episodes shares its house.
    """
    plan: dict[str, Any] = json.loads(blueprint)
    room, places, shut, is_locked = plan["start"]
    return House(
        rooms=tuple(plan["rooms"]),
        exits=tuple(plan["exits"]),
        door=tuple(plan["door"]),
        containers=tuple((name, where) for name, where in plan["containers"]),
        items=tuple(plan["items"]),
        target=plan["target"],
        start=State(room, tuple(places), shut, is_locked),
    )
