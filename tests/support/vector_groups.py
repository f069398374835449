"""Groups of records made from the rows of a vector file, and the way back from a recipe's credit to those rows.

Legend: B trajectories or sequences, T token positions of a sequence, R rows of a turn-major file (one turn each).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envs.types import Stop
from rl.methods import options
from rl.methods import recipe as recipes
from rl.methods.recipe import Recipe
from rl.records import Completion, Fork, Group, Ticket, Trajectory, Turn


def recipe_of(name: str, **words: str) -> Recipe:
    """The recipe `name` with the slots of `words` replaced, as the command line would."""
    recipe = recipes.load(name)
    return recipe.but(**recipes.parse(words))


def part(name: str, **bound: Any) -> str:
    """The text of a part with options, such as `gae:gamma=0.9,whiten=false`."""
    return f"{name}:{options.write(bound)}" if bound else name


def turn(count: int, reward: float = 0.0, *, gap: bool = True, ids: Sequence[int] = (), **fields: Any) -> Turn:
    """A turn of `count` sampled tokens, after one token of context if there is a `gap` before it."""
    ids = tuple(ids) or tuple(range(count))
    zeros = (0.0,) * count
    return Turn((9,) if gap else (), Completion(ids, zeros, zeros, (0,) * count), reward=float(reward), **fields)


class Records:
    """Trajectories in the order of a file's rows, put into groups by label for a recipe's credit.

    `returns` (B,) replaces the sums of turn rewards, as shaping does.
    """

    def __init__(
        self, trajectories: Sequence[Trajectory], labels: Sequence[object], returns: Sequence[float] = ()
    ) -> None:
        self.trajectories = list(trajectories)
        members: dict[object, list[int]] = {}
        for row, label in enumerate(labels):
            members.setdefault(label, []).append(row)
        self.rows = [row for rows in members.values() for row in rows]
        self.groups = [
            Group(
                Ticket(number, number, "train", 0, len(rows)),
                [self.trajectories[row] for row in rows],
                rewards=[float(returns[row]) for row in rows] if len(returns) else [],
            )
            for number, rows in enumerate(members.values())
        ]

    def credit(self, recipe: Recipe) -> list[np.ndarray]:
        """The recipe's credit of each trajectory (T,), in the order of the file."""
        nested = recipe.credit(self.groups, recipe.normalization)
        flat = [tokens for per_group in nested for tokens in per_group]
        return [flat[i] for i in np.argsort(self.rows)]

    def on_tokens(self, recipe: Recipe) -> np.ndarray:
        """The recipe's credit of all sampled tokens, sequence by sequence."""
        return np.concatenate(self.credit(recipe))

    def on_turns(self, recipe: Recipe) -> np.ndarray:
        """The recipe's credit of all turns, which must be the same on all tokens of a turn."""
        return np.array([x for trajectory in self.per_turn(recipe) for x in trajectory])

    def on_trajectories(self, recipe: Recipe) -> np.ndarray:
        """The recipe's credit of all trajectories, which must be the same on all their tokens."""
        return np.array([_only_value(tokens) for tokens in self.credit(recipe)])

    def per_turn(self, recipe: Recipe) -> list[list[float]]:
        """The recipe's credit of each turn of each trajectory."""
        return [
            [_only_value(tokens) for tokens in np.split(credit, np.cumsum(_num_tokens(trajectory))[:-1])]
            for trajectory, credit in zip(self.trajectories, self.credit(recipe), strict=True)
        ]

    def stream(self, name: str) -> np.ndarray:
        """A stream of all sampled tokens, sequence by sequence."""
        turns = [turn for trajectory in self.trajectories for turn in trajectory.turns]
        return np.array([x for turn in turns for x in turn.streams[name]])


def sequences(mask: np.ndarray, labels: Sequence[object], returns: np.ndarray) -> Records:
    """Sequences with one reward each: `mask` (B, T) is 1 on sampled tokens, every unbroken run of which is a turn."""
    return Records(
        [Trajectory([turn(count) for count in _runs(row)], Stop.TERMINATED) for row in mask > 0], labels, returns
    )


def token_sequences(rewards: np.ndarray, mask: np.ndarray, values: np.ndarray | None = None) -> Records:
    """Sequences with a reward per token (B, T) and, for a critic, a value: one turn for each sampled token."""
    trajectories = []
    for b, row in enumerate(mask > 0):
        turns = []
        for t in np.flatnonzero(row):
            turns.append(turn(1, rewards[b, t], gap=t > 0 and not row[t - 1]))
            if values is not None:
                turns[-1].streams["value"] = (float(values[b, t]),)
        trajectories.append(Trajectory(turns, Stop.TERMINATED))
    return Records(trajectories, range(len(trajectories)))


def turn_rows(
    trajectories: Sequence[object],
    rewards: Sequence[float],
    labels: Sequence[object],
    counts: Sequence[int] | np.ndarray = (),
    /,
    **fields: Sequence[Any],
) -> Records:
    """Rows (R,) of a turn-major file, trajectory by trajectory.

    `labels` name the group of each row, `counts` its sampled tokens (1 without), and `fields` further fields of `Turn`,
    one entry per row.
    """
    turns: dict[object, list[Turn]] = {}
    group_of: dict[object, object] = {}
    for row, name in enumerate(trajectories):
        more = {field: entries[row] for field, entries in fields.items()}
        turns.setdefault(name, []).append(turn(int(counts[row]) if len(counts) else 1, rewards[row], **more))
        group_of[name] = labels[row]
    return Records([Trajectory(own, Stop.TERMINATED) for own in turns.values()], list(group_of.values()))


def paths(names: Sequence[Sequence[str]], returns: Sequence[float], invalid: Sequence[str] = ()) -> Records:
    """Members of one group that walk along a tree of named nodes: equal names are the same sampled tokens."""
    ids: dict[str, int] = {}
    trajectories = [
        Trajectory(
            [turn(1, ids=(ids.setdefault(name, len(ids)),), valid=name not in invalid) for name in path],
            Stop.TERMINATED,
        )
        for path in names
    ]
    return Records(trajectories, ["tree"] * len(names), returns)


def completions(parent: Sequence[int], rewards: Sequence[float]) -> Records:
    """Members that each complete one prefix of a tree: member `i`'s prefix extends that of member `parent[i]` (-1: root).

    A prefix is given as turns that are shared as a fork; the completion is one more turn.
    """
    prefix: list[tuple[int, ...]] = []
    for i, j in enumerate(parent):
        prefix.append((*(prefix[j] if j >= 0 else ()), i))
    trajectories = [
        Trajectory(
            [*(turn(1, ids=(node,)) for node in nodes), turn(1, reward, ids=(len(parent) + i,))],
            Stop.TERMINATED,
            success=reward > 0,
            member=i,
            fork=Fork(max(parent[i], 0), len(nodes)),
        )
        for i, (nodes, reward) in enumerate(zip(prefix, rewards, strict=True))
    ]
    return Records(trajectories, ["tree"] * len(parent))


def metrics(**columns: Sequence[float]) -> list[Mapping[str, float]]:
    """The metrics of each row from one column per metric."""
    return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def _runs(row: np.ndarray) -> list[int]:
    """Lengths of the unbroken runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return (edges[1::2] - edges[::2]).tolist()


def _num_tokens(trajectory: Trajectory) -> list[int]:
    return [len(turn.completion.ids) for turn in trajectory.turns]


def _only_value(tokens: np.ndarray) -> float:
    assert len(tokens) and (tokens == tokens[0]).all()
    return float(tokens[0])
