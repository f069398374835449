"""Sokoban in a team of two: one seat plans on the map, the other pushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from envs.episodes.guide import Guide
from envs.games.game import check_range
from envs.games.planning import shortest_plan
from envs.games.sokoban import BOXES, LONGEST, SIZES, draw_level, parse_level
from envs.games.warehouse import MAX_SITUATIONS, Situation
from envs.multi.multi_env import MultiEnv
from envs.multi.plan_path import FAULT, LETTERS, STAY, STEPS, STRIDE, read_steps
from envs.multi.round import Round
from envs.procedural import drawn
from envs.types import Message, Task, assistant, final_text, user

SHORT_SIGNS = {"free": ".", "a wall": "#", "a box that can be pushed": "B", "a box that cannot be pushed": "X"}


class SokobanTeam(MultiEnv):
    """Sokoban for two: a planner, who sees the map, proposes steps; an executor, who sees little, pushes boxes.

    Observation: the planner reads the map, one row per line: `P` the player, `B` a box, `G` a goal, `*` a box on a
    goal, `+` the player on a goal, `#` a wall, `.` floor; walls surround the map. The executor reads the planner's
    steps and what the four neighbouring cells hold: nothing, a wall, a box that can be pushed, or one that cannot.
    Action: one to three of `up`, `down`, `left`, `right` (in the last line, also as the letters `u`, `d`, `l`, `r`), or
    `stay`. The planner's are sent to the executor; the executor's are taken, up to the first that is blocked. A step
    into a box pushes it.
    Reward: for both seats alike, after each of the executor's replies: by what share of its first length the shortest
    solution has become shorter, negative where it has become longer; 1 in all when the puzzle is solved. A puzzle that
    is stuck, or twice as long as at first, counts as twice as long, so that an episode earns -1 at worst.
    Episode end: terminated when every box is on a goal, which is success for both; truncated when the planner or the
    executor has no reply left. An invalid reply uses up a reply: the executor is sent no steps, or stays where it is. A
    box that can no longer be moved does not end the episode.
    Arguments: `size`, the side of the map, 3 to 7; `boxes`, 1 to 3; `longest`, 4 to 40: the shortest solution of a
    level has at most so many steps, and at least half as many.
    Seats: `planner`, `executor`; they reply in turn, and win together. Opponents: `oracle` (the default) plays the
    other seat as a good teammate, who knows only what that seat is sent.
    Splits: a level is in one split only. State: the map and the steps that were proposed.
    Source and licence: a task of AT-GRPO (arXiv:2510.11062), after its description; own code and levels; the game is by
    Hiroyuki Imabayashi (1981).
    Version history: v0.
    """

    seats = ("planner", "executor")
    teammates = True
    default_opponent = "oracle"

    def __init__(
        self, *, size: int = 4, boxes: int = 1, longest: int = 8, max_turns: int | None = None, **limits: Any
    ) -> None:
        self.size, self.boxes = check_range("size", size, SIZES), check_range("boxes", boxes, BOXES)
        self.longest = check_range("longest", longest, LONGEST)
        super().__init__(max_turns=longest // STRIDE + 6 if max_turns is None else max_turns, **limits)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return random levels; "val" and "test" contain each level once."""
        key = f"multi/Sokoban-v0:{self.size}:{self.boxes}:{self.longest}"
        return drawn(
            split, 5000 if split == "train" else 100, self._draw, key=key, same=lambda task: task.metadata["map"]
        )

    def start(self) -> Round:
        """Show the map to the planner."""
        self.warehouse, self.situation = parse_level(self.task.metadata["map"])
        self.way = _distances(self.task.metadata["map"])[self.situation]
        self.proposal = self.blocked = ""
        self.corrections = dict.fromkeys(self.seats, "")  # of the latest reply of each seat, if it was invalid
        return Round({"planner": (user(self._map()),)}, to_move=("planner",))

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Send the planner's steps to the executor, or take those of the executor."""
        ((seat, message),) = replies.items()
        steps = read_steps(final_text(message))
        invalid = (seat,) if steps is None else ()
        self.corrections[seat] = self.correction(seat, FAULT, short="") if invalid else ""
        if seat == "planner":
            self.proposal = " ".join(steps or ())
            return Round({"executor": (user(self._surroundings()),)}, to_move=("executor",), invalid=invalid)
        before = self._progress()
        news = self._take(steps or ())
        self.blocked = f"You {news}" if news else ""
        self.proposal = ""
        rewards = dict.fromkeys(self.seats, self._progress() - before)
        if self._is_solved(self.situation):
            over = f"{self._aim('stands', 'stand').capitalize()}."
            end = {name: (user(over),) for name in self.seats} if self.style == "full" else {}
            return Round(end, rewards, success=dict.fromkeys(self.seats, True))
        news = "The executor's reply named no steps." if invalid else f"The executor {news}" if news else ""
        lines = (self.corrections["planner"], news if self.style == "full" else "", self._map())
        text = "\n".join(filter(None, lines))
        return Round({"planner": (user(text),)}, rewards, to_move=("planner",), invalid=invalid)

    def guide(self, seat: str) -> Guide:
        """Say what the seat does for the team."""
        is_planner = seat == "planner"
        task = (
            "You are the planner: you see the map and send steps to your teammate, the executor, who sees what is in "
            "the four cells next to itself, and takes steps."
            if is_planner
            else "You are the executor: you are the one who walks and pushes. You do not see the map, only what is in "
            "the four cells next to you. Your teammate, the planner, sees the whole map and sends you steps."
        )
        return Guide(
            goal=(
                "Two players solve a Sokoban puzzle: "
                f"{'the box has' if self.boxes == 1 else f'{self.boxes} boxes have'} to be pushed onto "
                f"{'the goal' if self.boxes == 1 else 'the goals'}. {task} Both succeed when the puzzle is solved."
            ),
            rules=(
                f"The map has {self.size} rows of {self.size} cells; its edge is a wall. A step goes one cell up, "
                "down, left or right; up is towards the first row. If a box is in that cell, the step pushes it one "
                "cell further, unless a wall, the edge or another box is behind it; then nothing moves. A box cannot "
                "be pulled, so one in a corner, or along an edge that has no goal, can never reach a goal again. You "
                "earn the same as your teammate: each step that brings the shortest solution nearer earns an equal "
                "share of 1, and one that leads away from it costs that much. Once the puzzle can no longer be solved, "
                "the episode's score is -1. "
                f"One reply holds one to {STRIDE} steps, or the word stay. "
                + (
                    "After each of your replies the executor reads your steps, and nothing else of what you write; it "
                    "decides which steps to take, and they are taken up to the first that is blocked. Then you see the "
                    "map again."
                    if is_planner
                    else "After each of your replies your steps are taken in order, up to the first that is blocked. "
                    "Then the planner hears which step was blocked, sees the map again and sends you new steps. "
                    "Goals are not shown to you: a cell that is called free may be one."
                )
            ),
            legend={
                "P": "the player, who is the executor",
                "B": "a box",
                "G": "a goal",
                **({"*": "a box on a goal"} if self.boxes > 1 else {}),
                "+": "the player on a goal",
                "#": "a wall",
                ".": "free floor",
            }
            if is_planner
            else {},
            reading="For example, in the row `. P B G` one step right pushes the box onto the goal."
            if is_planner
            else "",
            reply=f"Reply with one to {STRIDE} steps, such as: right right down. To take no step, reply with stay.",
            noun="steps",
            example="right down",
            ending=f"The episode ends when {self._aim('is', 'are')}, or when the replies are used up.",
            invalid=f"A reply whose last line names no steps, or over {STRIDE}, moves nothing and uses up a reply.",
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
        rows = self.warehouse.render(self.situation).replace("\n", "/")
        return f"{rows} {self.proposal}".strip()

    def oracle(self, seat: str) -> Message:
        """Return steps of a shortest solution, for the planner; what the planner has sent, for the executor."""
        if seat == "executor":
            return assistant(self.proposal or STAY)
        try:
            plan = shortest_plan(self.situation, self.warehouse.successors, self._is_solved)
        except ValueError:
            return assistant(STAY)
        return assistant(" ".join(LETTERS[letter] for letter, _ in islice(plan, STRIDE)))

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Return one to three random steps."""
        names = [*STEPS]
        return assistant(" ".join(names[i] for i in rng.integers(len(names), size=int(rng.integers(1, STRIDE + 1)))))

    def _take(self, steps: Sequence[str]) -> str:
        """Take steps up to the first that is blocked or that solves the puzzle; return what is said of it."""
        for number, step in enumerate(steps):
            situation = self.warehouse.move(self.situation, step[0])
            if situation is None:
                count = f"{number} of {len(steps)} steps" if len(steps) > 1 else "no step"
                return f"took {count}; the step {step} was blocked."
            self.situation = situation
            if self._is_solved(situation):
                break
        return ""

    def _progress(self) -> float:
        """The share of the way to the solution that is done, from -1 to 1."""
        rest = _distances(self.task.metadata["map"]).get(self.situation, 2 * self.way)
        return max(-1.0, 1 - rest / self.way)

    def _aim(self, one: str, several: str) -> str:
        """What solves the puzzle, with the verb for one box or for several."""
        return f"the box {one} on the goal" if self.boxes == 1 else f"all boxes {several} on goals"

    def _is_solved(self, situation: Situation) -> bool:
        return situation.boxes == self.warehouse.goals

    def _map(self) -> str:
        text = self.warehouse.render(self.situation)
        return "\n".join(" ".join(row) for row in text.split("\n")) if self.style == "full" else text

    def _surroundings(self) -> str:
        cells = {name: self._content(name) for name in STEPS}
        if self.style != "full":
            letters = "".join(word[0] for word in self.proposal.split())
            return f"{letters}|{''.join(SHORT_SIGNS[content] for content in cells.values())}"
        news = f"The planner sends these steps: {self.proposal}." if self.proposal else "The planner sends no steps."
        places = ", ".join(f"{name} {content}" for name, content in cells.items())
        lines = (self.corrections["executor"], self.blocked, news, f"Next to you: {places}.")
        return "\n".join(filter(None, lines))

    def _content(self, direction: str) -> str:
        """What is in the cell next to the player."""
        there = self.warehouse.neighbours[direction[0]][self.situation.player]
        if there < 0:
            return "a wall"
        if not self.situation.boxes >> there & 1:
            return "free"
        is_stuck = self.warehouse.move(self.situation, direction[0]) is None
        return f"a box that {'cannot' if is_stuck else 'can'} be pushed"

    def _draw(self, rng: np.random.Generator) -> Task:
        return Task("", metadata={"map": draw_level(rng, self.size, self.boxes, self.longest)})


@lru_cache(maxsize=64)
def _distances(map_text: str) -> dict[Situation, int]:
    """The lengths of the shortest solutions of all situations of a level, or of those nearest to the solution."""
    warehouse, _ = parse_level(map_text)
    return warehouse.distances(MAX_SITUATIONS)
