"""Rooms: find an item in a small house and take it or put it somewhere, by text commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.blueprint import COMMANDS, draw_blueprint
from envs.games.game import Game, check_range
from envs.games.house import House, State, build_house
from envs.games.planning import follow_plan, shortest_plan
from envs.grading.choice import choice_line, find_choice
from envs.procedural import drawn
from envs.types import Message, Outcome, Task, assistant, final_text

KEY = "games/Rooms-v0"
SIZES, CLUTTER = range(2, 10), range(6)
LENGTHS = {"train": 5_000, "val": 100, "test": 200}
MEANINGS = {command: command for command in COMMANDS}
ARTICLES = re.compile(r"\b(?:the|an?|my)\s+", re.IGNORECASE)
VERBS = (  # other words for those of the commands
    (re.compile(r"\b(?:pick up|grab|get)\b", re.IGNORECASE), "take"),
    (re.compile(r"\b(?:walk|move|head|travel|go to)(?: to)? (?=(?:north|east|south|west)\b)", re.IGNORECASE), "go "),
)
INTO = re.compile(r"\b(?:into|inside)\b", re.IGNORECASE)


class Rooms(Game):
    """Take an item, or put it into a container, in a house where the item, and perhaps a key, must be found.

    Observation: the task first, `put cup in box`; on each turn the room, a shut door, the items carried, and the
    commands that work now: `kitchen; east door locked; have key: go north, unlock door, take hat`. With
    `commands=False` the room and everything visible in it instead of the commands: `kitchen; exits north east; east
    door locked; chest shut; here hat; have key`. After an invalid reply the same with `!`.
    In full style the instructions first, and sentences.
    Action: `go east`, `open chest`, `open door`, `unlock door`, `take cup`, `put cup in box`; of a longer reply the
    one command that its last line names. A reply without a command that works now is invalid; it costs a turn.
    Reward: 1 for doing the task, else 0; its only named part is `win`.
    Metrics: `efficiency`, when the task is done: the length of the shortest plan divided by the turns taken.
    Episode end: terminated when the task is done; truncated after `max_turns`, by default twice `length`.
    Arguments: `rooms`, their number; `length`, the number of commands of the shortest plan; `clutter`, the number of
    items that no plan needs; `commands`.
    Splits: a house with a task is in one split only.
    State: the task, the places of the player and of all items, and what is shut or locked.
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
        **kwargs: Any,
    ) -> None:
        self.rooms = check_range("rooms", rooms, SIZES)
        self.length = check_range("length", length, range(2, self.rooms + 7), why=f"what {rooms} rooms allow")
        self.clutter = check_range("clutter", clutter, CLUTTER)
        super().__init__(max_turns=2 * length if max_turns is None else max_turns, **kwargs)
        self.commands = bool(commands)

    @property
    def rules(self) -> str:
        """Rules of the game as a system message, in style "v1"."""
        hint = "I name the commands that work now." * self.commands
        return (
            "Do the task in a house of several rooms. Commands: go north/east/south/west, open chest, open door, "
            f"unlock door (with the key), take cup, put cup in box. Reply with one command a turn. {hint}".strip()
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random houses with a task whose shortest plan has `length` commands."""
        key = f"{KEY}:{self.rooms}:{self.length}:{self.clutter}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["house"])

    def opening(self) -> str:
        """Return the task and the description of the first room."""
        self.house: House = build_house(self.task.metadata["house"])
        self.house_state: State = self.house.start
        goal = f"Your task: {self.house.goal}." if self.style == "full" else self.house.goal
        return f"{goal}\n{self._describe_room()}"

    def guide(self) -> Guide:
        """Say which commands there are, and what each does."""
        short_hint = "After each reply you are told which commands work now; no other command does anything."
        long_hint = "After each reply you are told what is in the room, but not which commands work now."
        return Guide(
            goal=(
                "Carry out a task in a house of several rooms: take an item, or put it into a container. You succeed "
                "as soon as the task is done. The item may be in another room or in a shut container, and you may need "
                "a key to get there."
            ),
            rules=(
                "The commands are: `go north`, `go east`, `go south` or `go west` to the next room; `open X` for a "
                "shut container X in the room, and `open door` for a shut door; `unlock door` for a locked door, if "
                "you carry the key, after which you have to open it; `take X` for an item X that lies in the room or "
                f"in an open container; `put X in Y` to put an item X that you carry into an open container Y. "
                f"{short_hint if self.commands else long_hint}"
            ),
            reply="Reply with one command. Only one command counts per reply.",
            noun="command",
            example=next(iter(self.house.scene(self.house_state).commands)),
            ending="The episode ends when the task is done.",
            invalid="A reply without a command that works now changes nothing and uses up a reply.",
            heading="It begins:",
        )

    def state(self) -> str:
        """Return the task and the state of the house."""
        return f"{self.task.id} {self.house.scene(self.house_state).name}"

    def reply(self, action: Message) -> Outcome:
        """Carry out the command that the reply names, if it works now."""
        reply_text = final_text(action)
        commands = self.house.scene(self.house_state).commands
        # The search covers all commands, not only those that work now. Otherwise a line with a whole plan would name
        # one command in each turn and so play the plan.
        line = INTO.sub("in", ARTICLES.sub("", choice_line(reply_text)))
        for pattern, verb in VERBS:
            line = pattern.sub(verb, line)
        command = reply_text if reply_text in commands else find_choice(line, MEANINGS)
        after = commands.get(command or "")
        if after is None:
            fault = "Your reply does not name exactly one command."
            fault = fault if command is None else f"The command {command!r} does not work now."
            room = self._describe_room()
            return self.outcome(self.correction(fault, room, short=f"{room}!"), valid=False)
        self.house_state = after
        if not self.house.is_done(after):
            return self.outcome(self._describe_room())
        return self.outcome("The task is done.", is_won=True, efficiency=self.length / (self.turns + 1))

    def oracle(self) -> Iterator[Message]:
        """Return the commands of a shortest plan from the current state of the house."""
        return map(assistant, follow_plan(lambda: self.house_state, self.house.useful_commands, self.house.is_done))

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of the commands that work now, each equally likely."""
        commands = [*self.house.scene(self.house_state).commands]
        return assistant(commands[int(rng.integers(len(commands)))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them the whole plan in one reply and every command that works now."""
        plan = [
            command for command, _ in shortest_plan(self.house_state, self.house.useful_commands, self.house.is_done)
        ]
        valid_commands = ", ".join(self.house.scene(self.house_state).commands)
        return (*super().attacks(), ", ".join(plan), "\n".join([*plan, "done"]), valid_commands, "done", "win", "quit")

    def _describe_room(self) -> str:
        if self.style == "full":
            return self.house.sentences(self.house_state, with_commands=self.commands)
        scene = self.house.scene(self.house_state)
        return scene.brief if self.commands else scene.text

    def _draw(self, rng: np.random.Generator) -> Task:
        return Task("", metadata={"house": json.dumps(draw_blueprint(self.rooms, self.length, self.clutter, rng))})
