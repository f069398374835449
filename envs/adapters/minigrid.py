"""MiniGrid and BabyAI in words: what the player sees, from where it stands, as a list of things and distances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium

from envs.adapters.game_text import GameText

HEADINGS = ("east", "south", "west", "north")  # of `agent_dir`
DOOR_STATES = ("an open", "a closed", "a locked")
LEGEND = (
    "The world is a grid of cells, and you see only the part in front of you. Distances are in cells from where "
    "you stand: '2 ahead, 1 left' is reached by two steps forward and one to the left, and '1 ahead' is the cell "
    "directly in front of you. 'Free ahead' is the number of cells that you can walk straight on. The actions: "
    "left and right turn you on the spot, forward moves one cell, pickup takes the thing in the cell in front of "
    "you, drop puts what you carry into the cell in front of you, toggle opens or closes a door or a box in front "
    "of you (a locked door opens if you carry the key of its colour), done says that the task is complete. Walls, "
    "closed doors and things block the way; a goal can be walked on; lava ends the game."
)


def game_text(world: Any) -> GameText:
    """Return the texts for a game of MiniGrid."""
    return GameText(
        goal="You move through a small world and have a mission, which each observation repeats. Complete the mission.",
        legend=LEGEND,
        actions=tuple(action.name for action in world.actions),
        describe=describe,
        state=state,
    )


def describe(game: gymnasium.Env, observation: Any) -> str:
    """Describe MiniGrid's partial view: the mission, what is ahead, each thing in sight, and what is carried."""
    world: Any = game.unwrapped
    things = [text for _, text in sorted(_things(observation["image"]))]
    free = _free_cells(observation["image"])
    return "\n".join(
        (
            f"Mission: {observation['mission']}",
            f"You face {HEADINGS[int(observation['direction'])]}. Free ahead: {free}.",
            f"You see: {'; '.join(things) or 'no things'}.",
            f"You carry: {f'a {world.carrying.color} {world.carrying.type}' if world.carrying else 'nothing'}.",
        )
    )


def state(game: gymnasium.Env) -> str:
    """Return MiniGrid's hash of grid, place and direction, and what is carried."""
    world: Any = game.unwrapped
    cargo = f" {world.carrying.color} {world.carrying.type}" if world.carrying else ""
    return f"{world.hash()}{cargo}"


def _things(image: Any) -> Iterator[tuple[int, str]]:
    """Distance and text of everything in sight but walls and floor.

    `image` has the shape (columns, rows, 3): kind, colour and state. The player stands at the bottom in the middle and
    looks up. Its own cell shows what it carries, which is said separately.
    """
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

    columns, rows = image.shape[:2]
    for column in range(columns):
        for row in range(rows):
            kind, colour = IDX_TO_OBJECT[int(image[column, row, 0])], IDX_TO_COLOR[int(image[column, row, 1])]
            ahead, side = rows - 1 - row, column - columns // 2
            if kind in ("unseen", "empty", "wall", "floor", "agent") or (ahead, side) == (0, 0):
                continue
            article = DOOR_STATES[int(image[column, row, 2])] if kind == "door" else "a"
            name = "lava" if kind == "lava" else f"{article} {colour} {kind}"
            steps = [f"{ahead} ahead"] * bool(ahead)
            steps += [f"{abs(side)} {'right' if side > 0 else 'left'}"] * bool(side)
            yield ahead + abs(side), f"{name} {', '.join(steps)}"


def _free_cells(image: Any) -> int:
    """How many cells straight ahead are free: empty, floor, an open door or the goal."""
    from minigrid.core.constants import IDX_TO_OBJECT, STATE_TO_IDX

    columns, rows = image.shape[:2]
    for ahead in range(1, rows):
        kind, _, status = (int(number) for number in image[columns // 2, rows - 1 - ahead])
        is_open_door = IDX_TO_OBJECT[kind] == "door" and status == STATE_TO_IDX["open"]
        if IDX_TO_OBJECT[kind] not in ("empty", "floor", "goal") and not is_open_door:
            return ahead - 1
    return rows - 1
