"""All turns of an update as flat arrays, and what methods of multi-turn credit compute on them.

Legend: N trajectories, R turns of all of them in order, K turns of the longest. Nothing here loops over tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.statistics import Floats, Ints
from rl.methods.options import PartError, did_you_mean
from rl.records import Group, Trajectory, Turn

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization

Credit = list[list[np.ndarray]]
LEAST_SPREAD = 1e-3  # of values that are told apart, so that every unit of them is above 0


@dataclass(frozen=True, slots=True)
class Turns:
    """Who a turn belongs to and what it earned: arrays over R turns, and over N trajectories.

    Two trajectories of 2 and 1 turns in one group, the last turn of each paid 1:

        Turns(reward=[0, 1, 1], trajectory=[0, 0, 1], index=[0, 1, 0], tokens=[3, 2, 4], returns=[1, 1], group=[0, 0])
    """

    reward: Floats  # (R,); what shaping added to a trajectory's return is part of its last turn's
    trajectory: Ints  # (R,) in 0 .. N - 1, ascending
    index: Ints  # (R,) place within the trajectory
    tokens: Ints  # (R,) how many were sampled
    returns: Floats  # (N,) after shaping
    group: Ints  # (N,)

    @property
    def lengths(self) -> Ints:
        """Sampled tokens of each trajectory (N,)."""
        return np.bincount(self.trajectory, self.tokens, minlength=len(self.returns)).astype(np.int64)

    @property
    def counts(self) -> Ints:
        """Turns of each trajectory (N,)."""
        return np.bincount(self.trajectory, minlength=len(self.returns))

    def table(self, values: Floats) -> Floats:
        """`values` (R,) as (N, K), 0 where a trajectory has no such turn."""
        wide = np.zeros((len(self.returns), int(self.index.max(initial=-1)) + 1))
        wide[self.trajectory, self.index] = values
        return wide

    def flat(self, wide: np.ndarray) -> np.ndarray:
        """The reverse of `table`."""
        return wide[self.trajectory, self.index]


def trajectories(groups: Sequence[Group]) -> Iterator[Trajectory]:
    """Every trajectory that credit is given to, in order."""
    for group in groups:
        yield from group.trajectories


def turns_of(groups: Sequence[Group]) -> list[Turn]:
    """Every turn of theirs, in order."""
    return [turn for trajectory in trajectories(groups) for turn in trajectory.turns]


def read(groups: Sequence[Group]) -> Turns:
    """The turns of `groups`. The rewards of a trajectory add up to its entry of `group.rewards`."""
    played, turns = list(trajectories(groups)), turns_of(groups)
    counts = np.array([len(trajectory.turns) for trajectory in played], dtype=np.int64)
    returns = np.array([reward for group in groups for reward in group.rewards], dtype=np.float64)
    reward = np.array([turn.reward for turn in turns], dtype=np.float64)
    ends = np.cumsum(counts)
    earned = np.array([trajectory.reward for trajectory in played], dtype=np.float64)
    paid = counts > 0
    reward[ends[paid] - 1] += (returns - earned)[paid]
    return Turns(
        reward=reward,
        trajectory=np.repeat(np.arange(len(played)), counts),
        index=np.arange(len(turns)) - np.repeat(ends - counts, counts),
        tokens=np.array([len(turn.completion.ids) for turn in turns], dtype=np.int64),
        returns=returns,
        group=np.repeat(np.arange(len(groups)), [len(group.trajectories) for group in groups]),
    )


def on_tokens(groups: Sequence[Group], turns: Turns, per_turn: Floats) -> Credit:
    """Credit: each turn's number (R,) on all of its sampled tokens."""
    return nested(groups, turns.lengths, np.repeat(per_turn, turns.tokens))


def nested(groups: Sequence[Group], lengths: Ints, tokens: Floats) -> Credit:
    """A flat array over all sampled tokens, cut into groups and trajectories of `lengths` (N,) tokens."""
    pieces = iter(np.split(tokens, np.cumsum(lengths)[:-1]))
    return [[next(pieces) for _ in group.trajectories] for group in groups]


def numbers(groups: Sequence[Group], name: str) -> Floats:
    """One number per turn (R,): the sum of its stream `name`, or else its metric of that name, or else 0.

    Raises `PartError` when no turn has either.
    """
    turns = turns_of(groups)
    values = [turn.streams.get(name, turn.metrics.get(name)) for turn in turns]
    if turns and all(value is None for value in values):
        known = sorted({key for turn in turns for key in (*turn.streams, *turn.metrics)})
        hint = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
        raise PartError(f"credit reads {name!r} of turns, which no score part and no info['metrics'] gives{hint}")
    return np.array([sum(value) if isinstance(value, tuple) else value or 0.0 for value in values], dtype=np.float64)


def fill(groups: Sequence[Group], name: str, tokens: Floats) -> None:
    """Write a flat array over all sampled tokens into the stream `name` of every turn."""
    left = iter(tokens.tolist())
    for turn in turns_of(groups):
        turn.streams[name] = tuple(next(left) for _ in turn.completion.ids)


def labels(*parts: Sequence[object] | np.ndarray) -> Ints:
    """One number per row, equal exactly for rows that are equal in every part: a group's key, such as (task, k)."""
    code = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind in "iub":
            _, own = np.unique(part, return_inverse=True)
        else:
            seen: dict[object, int] = {}
            own = np.fromiter((seen.setdefault(value, len(seen)) for value in part), np.int64, len(part))
        _, code = np.unique(code * (own.max(initial=0) + 1) + own, return_inverse=True)
    return code


def to_go(turns: Turns, rewards: Floats, *, gamma: float = 1.0, matched: np.ndarray | None = None) -> Floats:
    """`G_k = r_k + gamma * G_{k+1}` within each trajectory (R,): discounted per turn, never per token.

    Where `matched` (R,) is False, a turn stands for itself: its return is its reward, and no earlier one sees it.
    """
    wide = turns.table(rewards)
    linked = turns.table(np.ones(len(rewards)) if matched is None else matched)
    for k in range(wide.shape[1] - 2, -1, -1):
        wide[:, k] += gamma * linked[:, k] * linked[:, k + 1] * wide[:, k + 1]
    return turns.flat(wide)


def so_far(turns: Turns, rewards: Floats) -> Floats:
    """The sum of rewards up to and including each turn (R,)."""
    return turns.flat(np.cumsum(turns.table(rewards), axis=1))


def improvement(turns: Turns, rewards: Floats, *, last: float = 1.0) -> Floats:
    """`r_k - r_{k-1}` (R,): what a turn added to the score of the turn before it.

    The last turn's reward counts `last` times; `1 - gamma` makes discounted returns those of the scores themselves.
    """
    wide = turns.table(rewards)
    ends = turns.counts > 0
    wide[np.nonzero(ends)[0], turns.counts[ends] - 1] *= last
    return turns.flat(np.diff(wide, axis=1, prepend=0.0))


def compared(values: Floats, key: Ints, lengths: Ints, norm: Normalization) -> Floats:
    """`values` against `norm.baseline` by `norm.scale`, among all that have the same `key`: any shape (M,)."""
    return norm.scale(values - norm.baseline(values, key, lengths), values, key)


def per_trajectory(turns: Turns, norm: Normalization) -> Floats:
    """The advantage of each trajectory's return in its group (N,)."""
    return compared(turns.returns, turns.group, turns.lengths, norm)


def compared_by_turn(turns: Turns, values: Floats, norm: Normalization, *, ended: str = "last") -> Floats:
    """`values` (R,) against the same turn of *all* members of the group, also of those whose episode is over.

    A member that has ended still stands in the comparison: with the value of its `"last"` turn, or with `"zero"`.
    Then the baseline does not depend on who chose to go on, and that choice keeps its price; the mean of those still
    playing would take it away wherever rewards are compared before they are summed. The last turn's value, unlike 0,
    also leaves a group without variance at exactly 0. `norm.scale` measures the unit once per trajectory, at the
    first turn, so that all turns of a group have the same.
    """
    wide, tokens = turns.table(values), turns.table(turns.tokens.astype(np.float64))
    members, width = wide.shape
    place = np.arange(width)
    if ended == "last":
        standing = np.minimum(place, turns.counts[:, None] - 1)
        wide, tokens = (np.take_along_axis(table, standing, axis=1) for table in (wide, tokens))
    key = turns.group[:, None] * max(width, 1) + place
    base = norm.baseline(wide.ravel(), key.ravel(), tokens.ravel().astype(np.int64)).reshape(wide.shape)
    first = wide[:, 0] if width else np.zeros(members)
    return turns.flat((wide - base) * unit(first, turns.group, norm)[:, None])


def unit(values: Floats, key: Ints, norm: Normalization) -> Floats:
    """One over `norm.scale`'s unit of `values` for each of them (M,); 0 where they have no spread.

    Raises `PartError` for a scale that measures advantages instead of values, and so has no such unit.
    """
    found = norm.scale(np.ones(len(values)), values, key)
    if not found.any() and statistics.group_std(values, key).max(initial=0.0) > LEAST_SPREAD:
        raise PartError("credit by turns needs a scale that measures returns, such as group_std or batch_std, or none")
    return found
