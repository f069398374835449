"""Cliff walking: Gymnasium's CliffWalking-v1 as text, with any start cell and any orientation of the map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from envs.episodes.guide import Guide, count, listing
from envs.games.game import SCREEN_SYNONYMS
from envs.games.planning import follow_plan
from envs.games.verbalised import Verbalised
from envs.procedural import enumerated
from envs.types import Message, Outcome, Task, assistant

ROWS, COLUMNS = 4, 12
GOAL = ROWS * COLUMNS - 1
CLIFF = range(GOAL - COLUMNS + 2, GOAL)
STARTS = [cell for cell in range(GOAL) if cell not in CLIFF]
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # row and column, in the order of the game's actions
NAMES = ("up", "right", "down", "left")
ORIENTATIONS = [(quarters, is_mirrored) for quarters in range(4) for is_mirrored in (False, True)]  # of the map
LONGEST = 14  # moves of the longest shortest path


class CliffWalking(Verbalised):
    """Walk to a goal at the far end of a cliff; a step over the edge leads back to the game's first cell.

    Observation: the distance to the goal up, right, down or left, then the steps that would fall: `11r cliff r`,
    `2u 3l`. In full style the instructions first, and sentences.
    Action: `up`, `right`, `down` or `left`; longer replies are read as `Verbalised` says. A step against the border is
    invalid.
    Reward: 1 on reaching the goal, else 0.
    Metrics: `points`, the game's own in the episode so far: -1 for a turn, -100 for a fall.
    Episode end: terminated by the goal; truncated after `max_turns`.
    Arguments: `slippery`: two moves in three go sideways, drawn from the episode's seed, so that no policy, not even
    the oracle, wins every time.
    Splits: a task is a start cell and one of the eight orientations of the map, which change the names of the actions
    (296 tasks); each is in one split only.
    State: the task and the cell.
    Source and licence: gymnasium's toy_text (MIT), after Sutton and Barto, example 6.6. Version history: v0.
    """

    game = "CliffWalking-v1"
    actions: Sequence[str] = NAMES
    max_turns = 20
    synonyms = MappingProxyType(SCREEN_SYNONYMS)
    rules = (
        "You walk on a grid beside a cliff. Each turn you see how far the goal is, such as '11r' for 11 cells to the "
        "right, and which steps would fall down the cliff, which brings you back to the first cell. Reply with one "
        "word a turn: up, right, down, left."
    )

    def __init__(self, *, slippery: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.slippery = bool(slippery)

    def guide(self) -> Guide:
        """Say what the grid is like, and what a step over the edge does."""
        slips = (
            " The ground is slippery: a step goes in the direction that you name only one time in three, and otherwise "
            "to one of its two sides."
        )
        return self.action_guide(
            goal="Walk on a grid beside a cliff to a goal. You succeed if you reach the goal.",
            rules=(
                f"The grid has {ROWS * COLUMNS} cells in a rectangle. Some cells along one edge are a cliff. After "
                "each reply you are told how far the goal is, and which steps would take you over the cliff; all other "
                "steps are safe. A step over the cliff does not end the episode, but puts you back at the corner of "
                "the grid where the cliff begins, at its far end from the goal. A step against the border leaves you "
                f"where you are.{slips if self.slippery else ''}"
            ),
            reading=(
                "For example, 'The goal is 3 cells to the left and 2 cells up.' means that three steps left and two "
                "steps up, in a safe order, reach it."
            ),
            example=next(name for name, _ in self._moves(self.observation)),
            ending="The episode ends when you reach the goal.",
            heading="Where you are:",
            reply="Reply with one step: up, right, down or left. Only one step counts per reply.",
            noun="step",
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return every start cell with every orientation of the map."""
        return enumerated(split, len(STARTS) * len(ORIENTATIONS), _task, key="games/CliffWalking-v0")

    def game_arguments(self) -> dict[str, Any]:
        """Arguments of the game: whether it is slippery."""
        return {"is_slippery": self.slippery}

    def game_seed(self) -> int:
        """Seed drawn from the episode's generator if the game is slippery, else 0."""
        return int(self.np_random.integers(2**31)) if self.slippery else 0

    def reset_game(self) -> int:
        """Name the actions for the orientation of the map and put the player on the start cell."""
        quarters, is_mirrored = self.task.metadata["quarters"], self.task.metadata["mirrored"]
        directions = [*NAMES[quarters:], *NAMES[:quarters]]
        self.actions = directions[::-1] if is_mirrored else directions
        super().reset_game()
        assert self.inner is not None
        world: Any = self.inner.unwrapped
        world.s = self.task.metadata["start"]
        return world.s

    def is_legal(self, action: int) -> bool:
        """Whether the step stays on the map."""
        return next_cell(self.observation, action) is not None

    def is_won(self, reward: float, terminated: bool) -> bool:
        """Whether the goal is reached, the only terminal state; the game pays nothing for it."""
        return terminated

    def ending(self, outcome: Outcome) -> str:
        """Say that the goal is reached: nothing else ends the game."""
        return "You have reached the goal."

    def describe(self, observation: int) -> str:
        """Describe the distance to the goal in each direction and the steps that would fall."""
        if self.style == "full":
            return describe_cell_fully(observation, tuple(self.actions))
        return describe_cell(observation, tuple(self.actions))

    def oracle(self) -> Iterator[Message]:
        """Yield the moves of a shortest path from the player's current cell."""
        return map(assistant, follow_plan(lambda: self.observation, self._moves, GOAL.__eq__))

    def _moves(self, cell: int) -> Iterator[tuple[str, int]]:
        for action, name in enumerate(self.actions):
            there = next_cell(cell, action)
            if there is not None and there not in CLIFF:
                yield name, there


@lru_cache(maxsize=512)
def describe_cell(cell: int, actions: tuple[str, ...]) -> str:
    """Describe a cell, where `actions` are the names of the game's actions in numeric order."""
    row, column = divmod(cell, COLUMNS)
    far = {actions[2]: ROWS - 1 - row, actions[1]: COLUMNS - 1 - column}
    words = [f"{far[name]}{name[0]}" for name in NAMES if far.get(name)]
    falls = [name[0] for name in NAMES if next_cell(cell, actions.index(name)) in CLIFF]
    return " ".join([*words, *(["cliff", *falls] if falls else [])])


def describe_cell_fully(cell: int, actions: tuple[str, ...]) -> str:
    """Describe a cell as `describe_cell` does, in sentences."""
    row, column = divmod(cell, COLUMNS)
    far = {actions[2]: ROWS - 1 - row, actions[1]: COLUMNS - 1 - column}
    ways = {"up": "up", "down": "down", "left": "to the left", "right": "to the right"}
    distances = [f"{count(far[name], 'cell')} {ways[name]}" for name in NAMES if far.get(name)]
    falls = [name for name in NAMES if next_cell(cell, actions.index(name)) in CLIFF]
    danger = (
        f"These steps would take you over the cliff: {', '.join(falls)}." if falls else "No step is dangerous here."
    )
    return f"The goal is {listing(distances)}.\n{danger}"  # the last line of an echo names no step, or a bad one


def next_cell(cell: int, action: int) -> int | None:
    """Return the cell that the action leads to, which may be part of the cliff; None beyond the border."""
    row, column = divmod(cell, COLUMNS)
    row, column = row + STEPS[action][0], column + STEPS[action][1]
    return row * COLUMNS + column if 0 <= row < ROWS and 0 <= column < COLUMNS else None


def _task(number: int) -> Task:
    start_index, orientation_index = divmod(number, len(ORIENTATIONS))
    quarters, is_mirrored = ORIENTATIONS[orientation_index]
    return Task("", metadata={"start": STARTS[start_index], "quarters": quarters, "mirrored": is_mirrored})
