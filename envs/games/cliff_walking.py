"""Walk along a cliff without falling down: Gymnasium's CliffWalking-v1 in words, from anywhere and any way round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from envs.games.planning import followed
from envs.games.verbalised import Verbalised
from envs.procedural import enumerated
from envs.types import Message, Task, assistant

ROWS, COLUMNS = 4, 12
GOAL = ROWS * COLUMNS - 1
CLIFF = range(GOAL - COLUMNS + 2, GOAL)
STARTS = [cell for cell in range(GOAL) if cell not in CLIFF]
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # row and column, in the order of the game's actions
NAMES = ("up", "right", "down", "left")
TURNED = [(quarters, mirrored) for quarters in range(4) for mirrored in (False, True)]  # the ways to lay a map down
LONGEST = 14  # moves of the longest shortest path


class CliffWalking(Verbalised):
    """Walk to a goal at the far end of a cliff; who steps over the edge is back at the game's first cell.

    Observation: how far the goal is, up, right, down or left, then which steps would fall: `11r cliff r`, `2u 3l`.
    Action: `up`, `right`, `down` or `left`; longer replies are read as `Verbalised` says. A step against the border is
    invalid.
    Reward: 1 on reaching the goal, else 0.
    Metrics: `points`, the game's own reward: -1 a turn, -100 for a fall.
    Episode end: terminated by the goal; truncated after `max_turns`.
    Arguments: `slippery`: two moves in three go to the side, by the luck of the episode's seed, so that nobody, the
    oracle included, wins every time; `explain`: the rules open the episode.
    Splits: a task is a cell to begin in and one of the eight ways to lay the map down, told by other names of the
    actions (296 tasks); each stands in one split only.
    State: the task and the cell.
    Source and licence: gymnasium's toy_text (MIT), after Sutton and Barto, example 6.6. Version history: v0.
    """

    game = "CliffWalking-v1"
    actions: Sequence[str] = NAMES
    max_turns = 20
    rules = (
        "You walk on a grid beside a cliff. Each turn you see how far the goal is, such as '11r' for 11 cells to the "
        "right, and which steps would fall down the cliff, which brings you back to the first cell. Reply with one "
        "word a turn: up, right, down, left."
    )

    def __init__(self, *, slippery: bool = False, **own: Any) -> None:
        super().__init__(**own)
        self.slippery = bool(slippery)

    def tasks(self, split: str) -> Sequence[Task]:
        """Every cell, on the map in every direction."""
        return enumerated(split, len(STARTS) * len(TURNED), _task, key="games/CliffWalking-v0")

    def arguments(self) -> dict[str, Any]:
        """Whether it is slippery."""
        return {"is_slippery": self.slippery}

    def luck(self) -> int:
        """The episode's own luck, since the cell is the task's."""
        return int(self.np_random.integers(2**31)) if self.slippery else 0

    def begin(self) -> int:
        """Name the ways as the map lies, and stand where the task begins."""
        quarters, mirrored = self.task.metadata["quarters"], self.task.metadata["mirrored"]
        turned = [*NAMES[quarters:], *NAMES[:quarters]]
        self.actions = turned[::-1] if mirrored else turned
        super().begin()
        assert self.inner is not None
        world: Any = self.inner.unwrapped
        world.s = self.task.metadata["start"]
        return world.s

    def legal(self, action: int) -> bool:
        """Whether the step stays on the map."""
        return beside(self.observation, action) is not None

    def won(self, reward: float, terminated: bool) -> bool:
        """Whether the goal is reached: the game pays nothing for it."""
        return terminated

    def describe(self, observation: int) -> str:
        """The goal's distance in each direction, and the steps that fall."""
        return seen(observation, tuple(self.actions))

    def oracle(self) -> Iterator[Message]:
        """A shortest path from wherever the player is."""
        return map(assistant, followed(lambda: self.observation, self._moves, GOAL.__eq__))

    def _moves(self, cell: int) -> Iterator[tuple[str, int]]:
        for action, name in enumerate(self.actions):
            there = beside(cell, action)
            if there is not None and there not in CLIFF:
                yield name, there


@lru_cache(maxsize=512)
def seen(cell: int, actions: tuple[str, ...]) -> str:
    """The words for a cell where the game's actions have these names."""
    row, column = divmod(cell, COLUMNS)
    far = {actions[2]: ROWS - 1 - row, actions[1]: COLUMNS - 1 - column}
    words = [f"{far[name]}{name[0]}" for name in NAMES if far.get(name)]
    falls = [name[0] for name in NAMES if beside(cell, actions.index(name)) in CLIFF]
    return " ".join([*words, *(["cliff", *falls] if falls else [])])


def beside(cell: int, action: int) -> int | None:
    """The cell that the action leads to, the cliff's included; None beyond the border."""
    row, column = divmod(cell, COLUMNS)
    row, column = row + STEPS[action][0], column + STEPS[action][1]
    return row * COLUMNS + column if 0 <= row < ROWS and 0 <= column < COLUMNS else None


def _task(number: int) -> Task:
    place, way = divmod(number, len(TURNED))
    quarters, mirrored = TURNED[way]
    return Task("", metadata={"start": STARTS[place], "quarters": quarters, "mirrored": mirrored})
