"""All turns of an update as flat arrays, and what methods of multi-turn credit compute from them.

Legend: B trajectories, R turns of all of them in order, K turns of the longest, M sampled tokens. Nothing here loops
over tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rl.methods.estimators import statistics
from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Floats, Ints
from rl.methods.options import MissingSignal, PartError, did_you_mean
from rl.records import Group, Trajectory, Turn

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization

TokenAdvantages = list[list[np.ndarray]]  # group > trajectory > (T,) advantages of its sampled tokens
MIN_SPREAD = 1e-3  # of values that a scale tells apart: every scale gives such values a unit above 0


@dataclass(frozen=True, slots=True)
class TurnTable:
    """Rewards and owners of all turns, as arrays over R turns and over B trajectories.

    Two trajectories of 2 and 1 turns in one group, the last turn of each with reward 1:

        TurnTable(
            rewards=[0, 1, 1], trajectory=[0, 0, 1], index=[0, 1, 0], num_tokens=[3, 2, 4], returns=[1, 1], group=[0, 0]
        )
    """

    rewards: Floats  # (R,); what shaping added to a trajectory's return is part of its last turn's reward
    trajectory: Ints  # (R,) number of the turn's trajectory in 0 .. B - 1, ascending
    index: Ints  # (R,) place of the turn in its trajectory
    num_tokens: Ints  # (R,) sampled tokens of the turn
    returns: Floats  # (B,) after shaping
    group: Ints  # (B,) number of the trajectory's group

    @property
    def lengths(self) -> Ints:
        """Number of sampled tokens of each trajectory (B,)."""
        return np.bincount(self.trajectory, self.num_tokens, minlength=len(self.returns)).astype(np.int64)

    @property
    def num_turns(self) -> Ints:
        """Number of turns of each trajectory (B,)."""
        return np.bincount(self.trajectory, minlength=len(self.returns))

    @property
    def turn_group(self) -> Ints:
        """Number of each turn's group (R,)."""
        return self.group[self.trajectory]

    def pad(self, per_turn: Floats) -> Floats:
        """`per_turn` (R,) as a table (B, K), 0 where a trajectory has no such turn."""
        table = np.zeros((len(self.returns), int(self.index.max(initial=-1)) + 1))
        table[self.trajectory, self.index] = per_turn
        return table

    def unpad(self, table: np.ndarray) -> np.ndarray:
        """The entries (R,) of a table (B, K) that stand for turns: the inverse of `pad`."""
        return table[self.trajectory, self.index]


def trajectories(groups: Sequence[Group]) -> Iterator[Trajectory]:
    """Yield the B trajectories of `groups`, in order. Errored members are not among them."""
    for group in groups:
        yield from group.trajectories


def turns_of(groups: Sequence[Group]) -> list[Turn]:
    """The R turns of `groups`, in order."""
    return [turn for trajectory in trajectories(groups) for turn in trajectory.turns]


def from_groups(groups: Sequence[Group]) -> TurnTable:
    """The table of all turns of `groups`, the errored members left out.

    The rewards of a trajectory's turns add up to its entry of `group.rewards`: what shaping added to its return is part
    of its last turn's reward.
    """
    members, turns = list(trajectories(groups)), turns_of(groups)
    num_turns = np.array([len(trajectory.turns) for trajectory in members], dtype=np.int64)
    returns = np.array([reward for group in groups for reward in group.rewards], dtype=np.float64)
    rewards = np.array([turn.reward for turn in turns], dtype=np.float64)
    ends = np.cumsum(num_turns)
    task_returns = np.array([trajectory.reward for trajectory in members], dtype=np.float64)
    has_turns = num_turns > 0
    rewards[ends[has_turns] - 1] += (returns - task_returns)[has_turns]
    return TurnTable(
        rewards=rewards,
        trajectory=np.repeat(np.arange(len(members)), num_turns),
        index=np.arange(len(turns)) - np.repeat(ends - num_turns, num_turns),
        num_tokens=np.array([len(turn.completion.ids) for turn in turns], dtype=np.int64),
        returns=returns,
        group=np.repeat(np.arange(len(groups)), [len(group.trajectories) for group in groups]),
    )


def turns_to_tokens(groups: Sequence[Group], table: TurnTable, per_turn: Floats) -> TokenAdvantages:
    """Give each turn's number, of `per_turn` (R,), to all of its sampled tokens: `credit[group][trajectory]`."""
    return nest(groups, table.lengths, np.repeat(per_turn, table.num_tokens))


def trajectories_to_tokens(groups: Sequence[Group], table: TurnTable, per_trajectory: Floats) -> TokenAdvantages:
    """Give each number of `per_trajectory` (B,) to all of that trajectory's tokens: `credit[group][trajectory]`."""
    return nest(groups, table.lengths, np.repeat(per_trajectory, table.lengths))


def nest(groups: Sequence[Group], lengths: Ints, per_token: Floats) -> TokenAdvantages:
    """Cut `per_token` (M,) into groups and trajectories of `lengths` (B,) tokens: `result[group][trajectory]`."""
    expect_shapes(lengths=(lengths, "B"), per_token=(per_token, "M"))
    pieces = iter(np.split(per_token, np.cumsum(lengths)[:-1]))
    return [[next(pieces) for _ in group.trajectories] for group in groups]


def turn_signal(groups: Sequence[Group], name: str) -> Floats:
    """One number per turn (R,): the sum of its stream `name` over its tokens, else its metric `name`, else 0.

    A stream is numbers per token that a score part has written to `Turn.streams`; a metric comes from the environment's
    `info["metrics"]`. Raises `MissingSignal` when no turn has either.
    """
    turns = turns_of(groups)
    values = [turn.streams.get(name, turn.metrics.get(name)) for turn in turns]
    if turns and all(value is None for value in values):
        names = sorted({key for turn in turns for key in (*turn.streams, *turn.metrics)})
        hint = did_you_mean(name, names) or f"; there are {', '.join(names) or 'none'}"
        raise MissingSignal(f"credit reads {name!r} of turns, which no score part and no info['metrics'] gives{hint}")
    return np.array([sum(value) if isinstance(value, tuple) else value or 0.0 for value in values], dtype=np.float64)


def write_stream(groups: Sequence[Group], name: str, per_token: Floats) -> None:
    """Write `per_token` (M,), the numbers of all sampled tokens, into `Turn.streams[name]` of every turn."""
    remaining = iter(per_token.tolist())
    for turn in turns_of(groups):
        turn.streams[name] = tuple(next(remaining) for _ in turn.completion.ids)


def group_ids(*columns: Sequence[object] | np.ndarray) -> Ints:
    """One id from 0 per row, equal exactly where rows are equal in every column.

    The columns, such as task and turn, have one entry per row. The ids say which rows are compared with each other.
    """
    ids = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        if isinstance(column, np.ndarray) and column.dtype.kind in "iub":
            _, codes = np.unique(column, return_inverse=True)
        else:
            code_of: dict[object, int] = {}
            codes = np.fromiter((code_of.setdefault(value, len(code_of)) for value in column), np.int64, len(column))
        _, ids = np.unique(ids * (codes.max(initial=0) + 1) + codes, return_inverse=True)
    return ids


def returns_to_go(
    table: TurnTable, rewards: Floats, *, gamma: float = 1.0, is_linked: np.ndarray | None = None
) -> Floats:
    """`G_k = r_k + gamma * G_{k+1}` (R,) within each trajectory, from `rewards` (R,); discounted per turn.

    Where `is_linked` (R,) is False, a turn stands alone: its return is its reward, and no earlier turn sees it.
    """
    returns = table.pad(rewards)
    links = table.pad(np.ones(len(rewards)) if is_linked is None else is_linked)
    for k in range(returns.shape[1] - 2, -1, -1):
        returns[:, k] += gamma * links[:, k] * links[:, k + 1] * returns[:, k + 1]
    return table.unpad(returns)


def improvement(table: TurnTable, rewards: Floats, *, last: float = 1.0) -> Floats:
    """`r_k - r_{k-1}` (R,): what a turn added to the score of the turn before it.

    The last turn's reward counts `last` times; with `1 - gamma`, discounted returns are those of the scores themselves.
    """
    scores = table.pad(rewards)
    has_turns = table.num_turns > 0
    scores[np.nonzero(has_turns)[0], table.num_turns[has_turns] - 1] *= last
    return table.unpad(np.diff(scores, axis=1, prepend=0.0))


def compare(values: Floats, group: Ints, lengths: Ints, norm: Normalization) -> Floats:
    """Advantages (B,) of `values` (B,) among equal `group` labels (B,): less `norm.baseline`, then `norm.scale`.

    The B values are of trajectories or of turns; `lengths` (B,) are their numbers of sampled tokens.
    """
    expect_shapes(values=(values, "B"), group=(group, "B"), lengths=(lengths, "B"))
    return norm.scale(values - norm.baseline(values, group, lengths), values, group)


def trajectory_advantages(table: TurnTable, norm: Normalization) -> Floats:
    """The advantage (B,) of each trajectory's return in its group, by `norm.baseline` and `norm.scale`."""
    return compare(table.returns, table.group, table.lengths, norm)


def episode_advantages(
    table: TurnTable,
    per_turn: Floats,
    norm: Normalization,
    *,
    unit: Literal["trajectory", "turn"] = "trajectory",
    singleton: Literal["zero", "raw"] = "zero",
) -> Floats:
    """The advantage (R,) of each turn's episode in its group.

    Args:
        table: The turns.
        per_turn: What `unit="turn"` compares: a reward (R,) for each turn.
        norm: Baseline and scale of the comparison.
        unit: `"trajectory"` compares returns, one per trajectory; `"turn"` compares `per_turn` over all turns of the
            group, in whose statistics a long trajectory then weighs more.
        singleton: What a value earns that is alone in its group: what `norm` says, which is 0 unless the baseline says
            otherwise, or with `"raw"` the value itself in `norm.scale`'s unit.
    """
    is_whole = unit == "trajectory"
    values, group = (table.returns, table.group) if is_whole else (per_turn, table.turn_group)
    advantages = compare(values, group, table.lengths if is_whole else table.num_tokens, norm)
    if singleton == "raw":
        advantages = np.where(statistics.group_size(group) == 1, norm.scale(values, values, group), advantages)
    return advantages[table.trajectory] if is_whole else advantages


def compare_by_turn(
    table: TurnTable, values: Floats, norm: Normalization, *, after_end: Literal["last", "zero"] = "last"
) -> Floats:
    """Advantages (R,) of `values` (R,) against the same turn of *all* members, also of those whose episode is over.

    A member whose episode is over stays in the comparison with the value of its `"last"` turn, or with `"zero"`. So the
    baseline does not depend on who chose to go on, and that choice keeps its price; the mean of those still playing
    would take it away wherever rewards are compared before they are summed. The last turn's value, unlike 0, also
    leaves a group without variance at exactly 0. `norm.scale` measures the unit once per trajectory, at the first turn,
    so that all turns of a group have the same.
    """
    expect_shapes(values=(values, "R"), index=(table.index, "R"))
    grid, lengths = table.pad(values), table.pad(table.num_tokens.astype(np.float64))
    num_members, num_places = grid.shape
    place = np.arange(num_places)
    if after_end == "last":
        source = np.minimum(place, table.num_turns[:, None] - 1)
        grid, lengths = (np.take_along_axis(x, source, axis=1) for x in (grid, lengths))
    group = table.group[:, None] * max(num_places, 1) + place
    base = norm.baseline(grid.ravel(), group.ravel(), lengths.ravel().astype(np.int64)).reshape(grid.shape)
    first = grid[:, 0] if num_places else np.zeros(num_members)
    return table.unpad((grid - base) * inverse_unit(first, table.group, norm)[:, None])


def mean_of_others(table: TurnTable, values: Floats) -> Floats:
    """For each turn, the mean of `values` (R,) of the same turn of the other members of its group (R,).

    A member whose episode is over stands with the value of its last turn. 0 in a group of one.
    """
    grid = table.pad(values)
    last = np.minimum(np.arange(grid.shape[1]), np.maximum(table.num_turns[:, None] - 1, 0))
    grid = np.take_along_axis(grid, last, axis=1)
    sums = np.zeros((int(table.group.max(initial=-1)) + 1, grid.shape[1]))
    np.add.at(sums, table.group, grid)
    others = np.maximum(statistics.group_size(table.group) - 1, 1)[:, None]
    return table.unpad((sums[table.group] - grid) / others)


def inverse_unit(values: Floats, group: Ints, norm: Normalization) -> Floats:
    """One over the unit (B,) by which `norm.scale` divides `values` (B,); 0 where they have no spread.

    Raises `PartError` for a scale that measures advantages instead of values, and so has no such unit.
    """
    factors = norm.scale(np.ones(len(values)), values, group)
    if not factors.any() and statistics.group_std(values, group).max(initial=0.0) > MIN_SPREAD:
        raise PartError("credit by turns needs a scale that measures returns, such as group_std or batch_std, or none")
    return factors
