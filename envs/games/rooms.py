"""Fetch and carry in a small house, in text commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.games.blueprint import COMMANDS, blueprint
from envs.games.game import Game, checked
from envs.games.house import House, State, house
from envs.games.planning import followed, shortest
from envs.grading.choice import TAIL_LENGTH, find_choice
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

KEY = "games/Rooms-v0"
SIZES, CLUTTER = range(2, 10), range(6)
LENGTHS = {"train": 5_000, "val": 100, "test": 200}
MEANINGS = {command: command for command in COMMANDS}
ARTICLES = re.compile(r"\b(?:the|an?|my)\s+", re.IGNORECASE)


class Rooms(Game):
    """Take a thing, or put it into another, in a house where the way, the thing or a key must be found.

    Observation: the task first, `put cup in box`; on each turn the room, a shut door, what is carried, and the
    commands that work now: `kitchen; east door locked; have key: go north, unlock door, take hat`. With
    `commands=False` the room and all that can be seen in it instead: `kitchen; exits north east; east door locked;
    chest shut; here hat; have key`. After an invalid reply the same with `!`.
    Action: `go east`, `open chest`, `open door`, `unlock door`, `take cup`, `put cup in box`; of a longer reply the
    one command that its last line names. A reply without a command that works now is invalid; it costs a turn.
    Reward: 1 for doing the task, else 0; its only named part is `win`.
    Metrics: `efficiency`, on doing it: the length of the shortest plan divided by the turns taken.
    Episode end: terminated by doing the task; truncated after `max_turns`, by default twice `length`.
    Arguments: `rooms`, how many; `length`, the commands of the shortest plan; `clutter`, things that nobody needs;
    `commands`; `explain`: the rules open the episode.
    Splits: a house with a task stands in one split only.
    State: the task, where the player and all things are, what is shut and locked.
    Source and licence: generated, in the manner of TextWorld (arXiv:1806.11532). Version history: v0.
    """

    def __init__(
        self,
        *,
        rooms: int = 4,
        length: int = 6,
        clutter: int = 1,
        commands: bool = True,
        max_turns: int | None = None,
        **own: Any,
    ) -> None:
        self.rooms = checked("rooms", rooms, SIZES)
        self.length = checked("length", length, range(2, self.rooms + 7), why=f"what {rooms} rooms allow")
        self.clutter = checked("clutter", clutter, CLUTTER)
        super().__init__(max_turns=2 * length if max_turns is None else max_turns, **own)
        self.commands = bool(commands)

    @property
    def rules(self) -> str:
        """The rules."""
        told = "I name the commands that work now." * self.commands
        return (
            "Do the task in a house of several rooms. Commands: go north/east/south/west, open chest, open door, "
            f"unlock door (with the key), take cup, put cup in box. Reply with one command a turn. {told}".strip()
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Random houses with a task whose shortest plan has `length` commands."""
        key = f"{KEY}:{self.rooms}:{self.length}:{self.clutter}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["house"])

    def opening(self) -> str:
        """Name the task and look around."""
        self.house: House = house(self.task.metadata["house"])
        self.now: State = self.house.start
        return f"{self.house.goal}\n{self._look()}"

    def state(self) -> str:
        """The task, and where everything is."""
        return f"{self.task.id} {self.house.scene(self.now).name}"

    def reply(self, action: Message) -> Outcome:
        """Carry out a command."""
        said = final_text(action)
        commands = self.house.scene(self.now).commands
        # Among all commands, not those that work: else a plan in one line would be carried out turn by turn.
        command = said if said in commands else find_choice(ARTICLES.sub("", said[-TAIL_LENGTH:]), MEANINGS)
        after = commands.get(command or "")
        if after is None:
            return self.outcome(f"{self._look()}!", valid=False)
        self.now = after
        if not self.house.done(after):
            return self.outcome(self._look())
        return self.outcome("", won=True, efficiency=self.length / (self.turns + 1))

    def oracle(self) -> Iterator[Message]:
        """A shortest plan from however things are."""
        return map(assistant, followed(lambda: self.now, self.house.useful, self.house.done))

    def random(self, rng: np.random.Generator) -> Message:
        """Any command that works now."""
        commands = [*self.house.scene(self.now).commands]
        return assistant(commands[int(rng.integers(len(commands)))])

    def attacks(self) -> Sequence[str]:
        """Among others: the task as a command, the whole plan in one reply, every command that works now."""
        plan = [command for command, _ in shortest(self.now, self.house.useful, self.house.done)]
        works = ", ".join(self.house.scene(self.now).commands)
        return (*super().attacks(), ", ".join(plan), "\n".join([*plan, "done"]), works, "done", "win", "quit")

    def _look(self) -> str:
        scene = self.house.scene(self.now)
        return scene.brief if self.commands else scene.text

    def _draw(self, rng: np.random.Generator) -> Task:
        return Task("", metadata={"house": json.dumps(blueprint(self.rooms, self.length, self.clutter, rng))})
