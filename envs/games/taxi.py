"""Drive a passenger home: Gymnasium's Taxi-v4 in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envs.games.game import checked
from envs.games.planning import followed
from envs.games.verbalised import Verbalised
from envs.procedural import enumerated
from envs.types import Message, Task, assistant

LEVELS = range(2)
LONGEST = (9, 18)  # the longest shortest plan of each level
STANDS = "RGYB"  # in the game's order
WAYS = "snew"  # in the order of the game's first four actions


class Taxi(Verbalised):
    """Fetch a passenger at one of four stands and set them down at another, in a town with walls.

    Observation: row and column of the taxi, the ways that are open, where the passenger is and wants to go:
    `3,1 sne R>G`; with the passenger aboard, `3,1 sne taxi>G`. The stands R, G, Y and B lie at 0,0, 0,4, 4,0 and 4,3.
    Action: `south`, `north`, `east`, `west`, `pick` or `drop`; longer replies are read as `Verbalised` says. Driving
    into a wall and picking up or dropping where that cannot be is invalid.
    Reward: 1 for the passenger at the stand they want, else 0.
    Metrics: `points`, the game's own reward: -1 a turn, -10 for a wrong pick or drop, 20 for arriving.
    Episode end: terminated by arriving; truncated after `max_turns`, by default one and a half times the longest plan.
    Arguments: `level` 0 begins with the passenger aboard (100 tasks), 1, the default, is the game (300 tasks);
    `explain`: the rules open the episode.
    Splits: a beginning stands in one split only.
    State: the task and the observation.
    Source and licence: gymnasium's toy_text (MIT), after Dietterich (2000). Version history: v0.
    """

    game = "Taxi-v4"
    actions = ("south", "north", "east", "west", "pick", "drop")
    rules = (
        "You drive a taxi. Each turn you see its row and column (0,0 is north-west), the ways that are open, and where "
        "the passenger is and wants to go. The stands are R at 0,0, G at 0,4, Y at 4,0 and B at 4,3. Drive to the "
        "passenger, pick, drive to the other stand, drop. Reply with one word a turn: south, north, east, west, pick, "
        "drop."
    )

    def __init__(self, *, level: int = 1, max_turns: int | None = None, **own: Any) -> None:
        self.level = checked("level", level, LEVELS)
        super().__init__(max_turns=LONGEST[self.level] * 3 // 2 if max_turns is None else max_turns, **own)
        self._sights: dict[int, tuple[str, tuple[bool, ...]]] = {}

    def tasks(self, split: str) -> Sequence[Task]:
        """All beginnings of the level."""
        total = (100, 300)[self.level]
        return enumerated(split, total, self._task, key=f"games/Taxi-v0:{self.level}")

    def luck(self) -> int:
        """None: the task says where all begins, and the game is deterministic."""
        return 0

    def begin(self) -> int:
        """Put taxi and passenger where the task has them."""
        super().begin()
        self._town.s = self.task.metadata["start"]
        return self._town.s

    def legal(self, action: int) -> bool:
        """Whether the game's own mask allows the action."""
        return self._sight(self.observation)[1][action]

    def describe(self, observation: int) -> str:
        """The taxi's place, open ways, the passenger's journey."""
        return self._sight(observation)[0]

    def oracle(self) -> Iterator[Message]:
        """A shortest plan from wherever taxi and passenger are."""
        return map(assistant, followed(lambda: self.observation, self._moves, self._arrived))

    @property
    def _town(self) -> Any:
        assert self.inner is not None
        return self.inner.unwrapped

    def _sight(self, state: int) -> tuple[str, tuple[bool, ...]]:
        """The words for a state, and which actions do something in it."""
        if state not in self._sights:
            row, column, passenger, stand = self._town.decode(state)
            mask = tuple(map(bool, self._town.action_mask(state)))
            ways = "".join(way for way, free in zip(WAYS, mask, strict=False) if free)
            words = f"{row},{column} {ways} {'taxi' if passenger == 4 else STANDS[passenger]}>{STANDS[stand]}"
            self._sights[state] = words, mask
        return self._sights[state]

    def _moves(self, state: int) -> Iterator[tuple[str, int]]:
        """What the game's own table says of each action."""
        return ((name, self._town.P[state][i][0][1]) for i, name in enumerate(self.actions))

    def _arrived(self, state: int) -> bool:
        _, _, passenger, stand = self._town.decode(state)
        return passenger == stand

    def _task(self, number: int) -> Task:
        number, stand = divmod(number, 3 if self.level else 4)
        place, passenger = divmod(number, 4) if self.level else (number, 4)
        stand += stand >= passenger  # a passenger does not want to where they are
        return Task("", metadata={"start": (place * 5 + passenger) * 4 + stand})
