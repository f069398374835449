"""A grid on which one seat plans and the other walks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envs.episodes.guide import Guide, Style
from envs.games.game import check_range
from envs.grading.choice import find_choices, plain_answer
from envs.grading.lines import last_line
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.procedural import drawn
from envs.types import Message, Task, assistant, final_text, user

WALLS = 0.22  # share of the cells, as in AT-GRPO's Plan-Path
STRIDE = 3  # steps of one reply
STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
LETTERS = {name[0]: name for name in STEPS}
STAY = "stay"
WORDS = {name: name for name in (*STEPS, STAY)}
FAULT = f"The last line of your reply does not name one to {STRIDE} steps, or it is not clear which."
Cell = tuple[int, int]


class PlanPath(MultiEnv):
    """Plan-Path: a planner, who sees the map, proposes steps; an executor, who sees little, walks to the goal.

    Observation: the planner reads the map, one row per line: `P` the walker, `G` the goal, `#` a wall, `.` free. The
    executor reads the planner's steps and which of the four neighbouring cells are free.
    Action: one to three of `up`, `down`, `left`, `right` (in the last line, also as the letters `u`, `d`, `l`, `r`), or
    `stay`. The planner's are sent to the executor; the executor's are walked, up to the first wall.
    Reward: for both seats alike, after each walk: the share of the way to the goal that it has covered, negative for
    a detour; 1 in all at the goal.
    Episode end: terminated at the goal, which is success for both; truncated when the planner or the executor has no
    reply left. An invalid reply uses up a reply: the executor is sent no steps, or stays where it is.
    Arguments: `size`, the side of the map (default: 3 in short style, else 5).
    Seats: `planner`, `executor`; they reply in turn, and win together. Opponents: `oracle` (the default) plays the
    other seat as a good teammate, who knows only what that seat is sent.
    Splits: a map is in one split only. State: the map and the steps that were proposed.
    Source and licence: a task of AT-GRPO (arXiv:2510.11062), after its description; own code and maps.
    Version history: v0.
    """

    seats = ("planner", "executor")
    teammates = True
    default_opponent = "oracle"

    def __init__(
        self, *, size: int | None = None, max_turns: int | None = None, style: Style = "full", **limits: Any
    ) -> None:
        self.size = check_range("size", (3 if style == "short" else 5) if size is None else size, range(3, 11))
        super().__init__(max_turns=self.size + 3 if max_turns is None else max_turns, style=style, **limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random maps; "val" and "test" contain each map once."""
        length = 10_000 if split == "train" else 100 if self.size == 3 else 200
        key = f"multi/PlanPath-v0:{self.size}"
        return drawn(split, length, self._draw, key=key, same=lambda task: [*task.metadata.values()])

    def start(self) -> Round:
        """Show the map to the planner."""
        data = self.task.metadata
        self.rows, self.goal = data["map"].split("/"), _cell(data["goal"])
        self.position, self.proposal = _cell(data["start"]), ""
        self.distances = distances(self.rows, self.goal)
        self.way = self.distances[self.position]
        self.corrections = dict.fromkeys(self.seats, "")  # of the latest reply of each seat, if it was invalid
        return Round({"planner": (user(self._map()),)}, to_move=("planner",))

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Send the planner's steps to the executor, or walk those of the executor."""
        ((seat, message),) = replies.items()
        steps = read_steps(final_text(message))
        invalid = (seat,) if steps is None else ()
        self.corrections[seat] = self.correction(seat, FAULT, short="") if invalid else ""
        if seat == "planner":
            self.proposal = " ".join(steps or ())
            return Round({"executor": (user(self._surroundings()),)}, to_move=("executor",), invalid=invalid)
        before = self.distances[self.position]
        self.position = self._walk(steps or ())
        self.proposal = ""
        progress = (before - self.distances[self.position]) / self.way
        rewards = dict.fromkeys(self.seats, progress)
        if self.position == self.goal:
            end = {name: (user("The walker is at the goal."),) for name in self.seats} if self.style == "full" else {}
            return Round(end, rewards, success=dict.fromkeys(self.seats, True))
        news = "The executor's reply named no steps." if invalid and self.style == "full" else ""
        text = "\n".join(filter(None, (self.corrections["planner"], news, self._map())))
        return Round({"planner": (user(text),)}, rewards, to_move=("planner",), invalid=invalid)

    def guide(self, seat: str) -> Guide:
        """Say what the seat does for the team."""
        is_planner = seat == "planner"
        task = (
            "You are the planner: you see the map and send steps to your teammate, the executor, who sees the four "
            "cells next to itself and walks."
            if is_planner
            else "You are the executor: you walk. You do not see the map, only which of the four cells next to you are "
            "free. Your teammate, the planner, sees the whole map and sends you steps."
        )
        return Guide(
            goal=f"Two players bring a walker to its goal on a grid. {task} Both succeed when the walker is there.",
            rules=(
                f"The grid has {self.size} rows of {self.size} cells, with walls. A step goes one cell up, down, left "
                f"or right; up is towards the first row. One reply holds one to {STRIDE} steps, or the word stay. "
                "After each walk both players earn the share of the way to the goal that it has covered, less for a "
                "detour; a whole way earns 1. "
                + (
                    "After each of your replies the executor reads your steps, and nothing else of what you write; it "
                    "decides where to walk, and stops before a wall or the edge of the grid. Then you see the map "
                    "again."
                    if is_planner
                    else "After each of your replies the walker takes the steps and stops before a wall or the "
                    "edge of the grid. Then the planner sees the map again and sends you new steps."
                )
            ),
            legend={"P": "the walker", "G": "the goal", "#": "a wall", ".": "a free cell"} if is_planner else {},
            reading="The first line of the map is its top row." if is_planner else "",
            reply=f"Reply with one to {STRIDE} steps, such as: right right down. To take no step, reply with stay.",
            noun="steps",
            example="right down",
            ending="The episode ends at the goal.",
            invalid=f"A reply whose last line names no steps, or over {STRIDE}, moves nobody and uses up a reply.",
            heading="The map:" if is_planner else "Your first message from the planner:",
        )

    def drawing(self, seat: str) -> str:
        """Return the signs of the map, for the planner."""
        return " ".join("".join(self._map().split())) if seat == "planner" else ""

    def secrets(self, seat: str) -> Sequence[str]:
        """Return the map, which only the planner sees."""
        return (self._map(),) if seat == "planner" else ()

    def state(self) -> str:
        """Return the map in one line, and the steps of the planner."""
        rows = self._map().replace(" ", "").replace("\n", "/")
        return f"{rows} {self.proposal}".strip()

    def oracle(self, seat: str) -> Message:
        """Return steps of a shortest way, for the planner; what the planner has sent, for the executor."""
        if seat == "executor":
            return assistant(self.proposal or STAY)
        steps: list[str] = []
        position = self.position
        while position != self.goal and len(steps) < STRIDE:
            neighbours = {name: _add(position, step) for name, step in STEPS.items()}
            reachable = {name: cell for name, cell in neighbours.items() if cell in self.distances}
            name = min(reachable, key=lambda name: self.distances[reachable[name]])
            steps.append(name)
            position = reachable[name]
        return assistant(" ".join(steps))

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Return one to three random steps."""
        names = [*STEPS]
        return assistant(" ".join(names[i] for i in rng.integers(len(names), size=int(rng.integers(1, STRIDE + 1)))))

    def _walk(self, steps: Sequence[str]) -> Cell:
        position = self.position
        for step in steps:
            target = _add(position, STEPS[step])
            if target not in self.distances or position == self.goal:
                break
            position = target
        return position

    def _map(self) -> str:
        gap = " " if self.style == "full" else ""
        signs = {self.goal: "G", self.position: "P"}
        return "\n".join(
            gap.join(signs.get((i, j), sign) for j, sign in enumerate(row)) for i, row in enumerate(self.rows)
        )

    def _surroundings(self) -> str:
        free = [name for name, step in STEPS.items() if _add(self.position, step) in self.distances]
        if self.style != "full":
            letters = "".join(word[0] for word in self.proposal.split())
            return f"{letters}|{''.join(name[0] for name in free)}"
        news = f"The planner sends these steps: {self.proposal}." if self.proposal else "The planner sends no steps."
        text = f"{news}\nFree cells next to you: {', '.join(free)}."
        return "\n".join(filter(None, (self.corrections["executor"], text)))

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            walls = rng.random((self.size, self.size)) < WALLS
            rows = ["".join("#" if wall else "." for wall in row) for row in walls]
            start, goal = (divmod(int(i), self.size) for i in rng.choice(self.size**2, 2, replace=False))
            if walls[start] or walls[goal]:
                continue
            if self.size // 2 < distances(rows, goal).get(start, 0) <= 2 * self.size:
                words = {"start": f"{start[0]} {start[1]}", "goal": f"{goal[0]} {goal[1]}"}
                return Task("", metadata={"map": "/".join(rows), **words})


def read_steps(reply: str) -> tuple[str, ...] | None:
    """Return the steps that the last line of a reply names, at most three; () for `stay`; None for any other line.

    Lines are read as `envs.grading.choice.find_choices` says; the steps may also be written as letters, `rrd`.
    """
    letters = plain_answer(last_line(reply)).lower()
    spelled = [letter for letter in letters if letter not in " ,"]
    is_spelled = bool(spelled) and set(spelled) <= LETTERS.keys()
    steps = tuple(LETTERS[letter] for letter in spelled) if is_spelled else find_choices(reply, WORDS)
    if steps == (STAY,):
        return ()
    return steps if steps and STAY not in steps and len(steps) <= STRIDE else None


def distances(rows: Sequence[str], goal: Cell) -> dict[Cell, int]:
    """Return the number of steps to the goal of every cell from which it can be reached."""
    result, queue = {goal: 0}, deque([goal])
    while queue:
        cell = queue.popleft()
        for step in STEPS.values():
            row, column = neighbour = _add(cell, step)
            is_inside = 0 <= row < len(rows) and 0 <= column < len(rows[0])
            if is_inside and rows[row][column] != "#" and neighbour not in result:
                result[neighbour] = result[cell] + 1
                queue.append(neighbour)
    return result


def _add(cell: Cell, step: Cell) -> Cell:
    return cell[0] + step[0], cell[1] + step[1]


def _cell(text: str) -> Cell:
    row, column = map(int, text.split())
    return row, column
