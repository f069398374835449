"""Taxi: Gymnasium's Taxi-v4 as text, in which a taxi takes a passenger from one stand to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any

from envs.episodes.guide import Guide, listing
from envs.games.game import COMPASS_SYNONYMS, check_range
from envs.games.planning import follow_plan
from envs.games.verbalised import Verbalised
from envs.procedural import enumerated
from envs.types import Message, Outcome, Task, assistant

LEVELS = range(2)
LONGEST = (9, 18)  # moves of the longest of the shortest plans, by level
STANDS = "RGYB"  # in the game's order
WAYS = "snew"  # in the order of the game's first four actions


class Taxi(Verbalised):
    """Fetch a passenger at one of four stands and set them down at another, in a town with walls.

    Observation: row and column of the taxi, the directions without a wall, the passenger's place and destination:
    `3,1 sne R>G`; with the passenger aboard, `3,1 sne taxi>G`. The stands R, G, Y and B lie at 0,0, 0,4, 4,0 and 4,3.
    In full style the instructions first, and sentences.
    Action: `south`, `north`, `east`, `west`, `pick` or `drop`; longer replies are read as `Verbalised` says. Driving
    into a wall and picking up or dropping where that cannot be is invalid.
    Reward: 1 when the passenger is set down at the destination, else 0.
    Metrics: `points`, the game's own in the episode so far: -1 for a turn, -10 for a wrong pick or drop, 20 for
    arriving.
    Episode end: terminated by arriving; truncated after `max_turns`, by default one and a half times the longest plan.
    Arguments: `level` 0 begins with the passenger aboard (100 tasks), 1, the default, is the game (300 tasks).
    Splits: an initial state is in one split only.
    State: the task and the observation.
    Source and licence: gymnasium's toy_text (MIT), after Dietterich (2000). Version history: v0.
    """

    game = "Taxi-v4"
    actions = ("south", "north", "east", "west", "pick", "drop")
    synonyms = MappingProxyType(
        {**COMPASS_SYNONYMS, **dict.fromkeys(("pickup", "picking"), "pick"), **dict.fromkeys(("dropoff",), "drop")}
    )
    rules = (
        "You drive a taxi. Each turn you see its row and column (0,0 is north-west), the ways that are open, and where "
        "the passenger is and wants to go. The stands are R at 0,0, G at 0,4, Y at 4,0 and B at 4,3. Drive to the "
        "passenger, pick, drive to the other stand, drop. Reply with one word a turn: south, north, east, west, pick, "
        "drop."
    )

    def __init__(self, *, level: int = 1, max_turns: int | None = None, **kwargs: Any) -> None:
        self.level = check_range("level", level, LEVELS)
        super().__init__(max_turns=LONGEST[self.level] * 3 // 2 if max_turns is None else max_turns, **kwargs)
        self._descriptions: dict[int, tuple[str, tuple[bool, ...]]] = {}

    def guide(self) -> Guide:
        """Say where the stands are, what each action does, and what is asked."""
        return self.action_guide(
            goal=(
                "Drive a taxi: pick up the passenger where they wait, drive them to where they want to go, and drop "
                "them there. You succeed when the passenger is dropped at that place."
            ),
            rules=(
                "The town has 5 rows and 5 columns of cells. Rows count from 0 in the north to 4 in the south, columns "
                "from 0 in the west to 4 in the east. There are four stands: R at row 0, column 0; G at row 0, column "
                "4; Y at row 4, column 0; B at row 4, column 3. Passengers wait at a stand and want to go to a stand. "
                "South, north, east and west drive one cell. There are walls between some cells; you are told in which "
                "directions the way is free. Pick takes the passenger aboard; you must be on their stand. Drop sets "
                "the passenger down; you must be on the stand where they want to go."
            ),
            ending="The episode ends when the passenger is dropped at the right stand.",
            invalid=(
                "Driving into a wall, and pick or drop in a wrong place, change nothing and use up a reply, as does a "
                "reply that names no action, or several."
            ),
            example=next(name for name, is_free in zip(self.actions, self._mask(), strict=False) if is_free),
            heading="The situation:",
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return all initial states of the level."""
        total = (100, 300)[self.level]
        return enumerated(split, total, self._task, key=f"games/Taxi-v0:{self.level}")

    def game_seed(self) -> int:
        """Always 0: the task fixes the initial state, and the game is deterministic."""
        return 0

    def reset_game(self) -> int:
        """Put the taxi and the passenger into the initial state of the task."""
        super().reset_game()
        self._taxi_env.s = self.task.metadata["start"]
        return self._taxi_env.s

    def is_legal(self, action: int) -> bool:
        """Whether the game's own action mask allows the action."""
        return self._mask()[action]

    def ending(self, outcome: Outcome) -> str:
        """Say that the passenger has arrived: nothing else ends the game."""
        return "The passenger has been dropped at the right stand."

    def describe(self, observation: int) -> str:
        """Describe the taxi's cell, the open directions, and the passenger's place and destination."""
        return self._full_text(observation) if self.style == "full" else self._describe_state(observation)[0]

    def oracle(self) -> Iterator[Message]:
        """Return the actions of a shortest plan from the current state."""
        return map(assistant, follow_plan(lambda: self.observation, self._moves, self._is_goal))

    @property
    def _taxi_env(self) -> Any:
        assert self.inner is not None
        return self.inner.unwrapped

    def _describe_state(self, state: int) -> tuple[str, tuple[bool, ...]]:
        """Return the description of a state, and for each action whether it has an effect there."""
        if state not in self._descriptions:
            row, column, passenger, stand = self._taxi_env.decode(state)
            mask = tuple(map(bool, self._taxi_env.action_mask(state)))
            ways = "".join(way for way, free in zip(WAYS, mask, strict=False) if free)
            words = f"{row},{column} {ways} {'taxi' if passenger == 4 else STANDS[passenger]}>{STANDS[stand]}"
            self._descriptions[state] = words, mask
        return self._descriptions[state]

    def _mask(self) -> tuple[bool, ...]:
        """For each action whether it has an effect now."""
        return self._describe_state(self.observation)[1]

    def _full_text(self, state: int) -> str:
        """Describe a state in sentences."""
        row, column, passenger, stand = self._taxi_env.decode(state)
        mask = self._describe_state(state)[1]
        ways = [name for name, is_free in zip(self.actions[:4], mask, strict=False) if is_free]
        where = "is in the taxi" if passenger == 4 else f"waits at {STANDS[passenger]}"
        return (
            f"The taxi is at row {row}, column {column}. The way is free to the {listing(ways)}. The passenger {where} "
            f"and wants to go to {STANDS[stand]}."
        )

    def _moves(self, state: int) -> Iterator[tuple[str, int]]:
        """Yield each action with the state it leads to, from the game's own transition table."""
        return ((name, self._taxi_env.P[state][i][0][1]) for i, name in enumerate(self.actions))

    def _is_goal(self, state: int) -> bool:
        _, _, passenger, stand = self._taxi_env.decode(state)
        return passenger == stand

    def _task(self, number: int) -> Task:
        number, stand = divmod(number, 3 if self.level else 4)
        taxi_cell, passenger = divmod(number, 4) if self.level else (number, 4)
        stand += stand >= passenger  # the destination differs from the passenger's place
        return Task("", metadata={"start": (taxi_cell * 5 + passenger) * 4 + stand})
