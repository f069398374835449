"""A walk over numbered places, on a ring or a grid, from a start to a goal past traps."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from envs.episodes.guide import Guide, count, listing
from envs.games.doors.world import KEY, Move, World
from envs.procedural import digest, enumerated
from envs.types import Task

Shape = Literal["ring", "grid"]
WAYS = ("n", "e", "s", "w")


class Walk(World):
    """A ring of `size` places or a grid of `size` by `size`; `traps` of them, always the same, end the episode."""

    actions = WAYS

    def __init__(self, shape: Shape, size: int, traps: int, turns: int) -> None:
        self.shape, self.size, self.turns = shape, size, turns
        self.nodes = size if shape == "ring" else size * size
        self.traps: set[int] = set()
        for node in sorted(range(self.nodes), key=lambda node: digest(KEY, shape, size, node)):
            if len(self.traps) < traps and self._is_connected(self.traps | {node}):
                self.traps.add(node)
        free = [node for node in range(self.nodes) if node not in self.traps]
        if len(self.traps) < traps or len(free) < 4:
            raise ValueError(f"traps {traps!r} leave fewer than 4 places of {self.nodes}, connected with each other")
        self.far = {goal: self._distances(goal, self.traps) for goal in free}
        longest = max(max(far.values()) for far in self.far.values())
        if longest > turns:
            raise ValueError(f"turns {turns!r} are fewer than the {longest} steps of the longest way on this {shape}")
        self.pairs = [(start, goal) for goal in free for start in free if start != goal]

    def _is_connected(self, traps: set[int]) -> bool:
        free = next((node for node in range(self.nodes) if node not in traps), None)
        return free is not None and len(self._distances(free, traps)) == self.nodes - len(traps)

    def _distances(self, goal: int, traps: set[int]) -> dict[int, int]:
        far, queue = {goal: 0}, deque([goal])
        while queue:
            node = queue.popleft()
            for way in WAYS:
                there = self.next_node(node, way)  # every way leads back by another
                if there not in far and there not in traps:
                    far[there] = far[node] + 1
                    queue.append(there)
        return far

    def next_node(self, node: int, way: str) -> int:
        """The place that a step leads to; on the grid a step over the border leaves the player where they are."""
        if self.shape == "ring":
            return (node + (1 if way in "ne" else -1)) % self.nodes
        row, column = divmod(node, self.size)
        row += (way == "s") - (way == "n")
        column += (way == "e") - (way == "w")
        inside = 0 <= row < self.size and 0 <= column < self.size
        return row * self.size + column if inside else node

    def tasks(self, split: str) -> Sequence[Task]:
        """Return all pairs of a start and a goal."""
        key = f"{KEY}:{self.shape}:{self.size}:{len(self.traps)}"
        return enumerated(
            split,
            len(self.pairs),
            lambda n: Task("", metadata=dict(zip(("start", "goal"), self.pairs[n], strict=True))),
            key=key,
        )

    def enter(self) -> None:
        """Stand on the start."""
        self.node, self.goal = self.metadata["start"], self.metadata["goal"]

    def play(self, action: str | None) -> Move:
        """Take a step; a reply that names none leaves the player where they are."""
        if action is not None:
            self.node = self.next_node(self.node, action)
        far = self.far[self.goal].get(self.node, 0)
        if self.node in self.traps:
            return Move(0.0, True, False, "You have stepped into a trap.")
        is_won = self.node == self.goal
        return Move(float(is_won), is_won, is_won, "You have reached the goal." * is_won, {"distance": float(far)})

    def best(self) -> str:
        """The first step of a shortest way."""
        far = self.far[self.goal]
        return min(WAYS, key=lambda way: far.get(self.next_node(self.node, way), self.nodes))

    def view(self, is_full: bool) -> str:
        """The place and the goal."""
        return f"You are at {self.node}. The goal is {self.goal}." if is_full else f"{self.node:02}>{self.goal:02}"

    def key(self) -> str:
        """The place."""
        return str(self.node)

    def guide(self, legend: bool) -> Guide:
        """Say how the places lie, and with `legend` where the traps are."""
        last = self.nodes - 1
        lie = (
            f"{self.nodes} places, numbered from 0 to {last}, lie on a ring. The steps n and e both lead to the place "
            f"with the next number, and from {last} to 0; s and w both lead to the one before, and from 0 to {last}."
            if self.shape == "ring"
            else f"{self.nodes} places lie on a grid of {self.size} rows and {self.size} columns. They are numbered "
            f"row by row from 0, at the north-western corner, to {last}. A step n (north) takes {self.size} from the "
            f"number, s (south) adds {self.size}, e (east) adds 1 and w (west) takes 1. A step over the border leaves "
            "you where you are."
        )
        traps = ""
        if self.traps:
            where = f": {listing(sorted(self.traps))}" if legend else ". You are not told where; outcomes show it"
            traps = f" {count(len(self.traps), 'place is a trap', 'places are traps')}{where}."
        return Guide(
            goal="Walk from place to place to a goal. You succeed if you reach it.",
            rules=lie + traps,
            reply="Reply with one step: n, e, s or w.",
            noun="step",
            example="e",
            ending=f"The episode ends when you reach the goal{' or step into a trap' * bool(self.traps)}.",
            invalid="A reply that names no step, or several, uses up a reply and leaves you where you are.",
            heading="Where you are:",
        )
