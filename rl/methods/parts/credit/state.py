"""Credit from turns that stood before the same state of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import states, turn_table
from rl.methods.estimators.statistics import Floats, Ints
from rl.methods.estimators.turn_table import Credit, Turns
from rl.methods.options import Natural, NonNegative, PartError, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def anchored(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.95,
    omega: NonNegative = 1.0,
    similarity: Share = 1.0,
    unit: Literal["trajectory", "turn"] = "trajectory",
) -> Credit:
    """GiGPO (arXiv:2505.10978, eq. 8): the trajectory's advantage, plus `omega` times that of the turn in its state.

    The second compares returns from this turn on, discounted by `gamma` per turn, among all turns of the group that
    stood before the same `Turn.state`; a state visited once adds 0. `similarity` below 1 also merges texts whose
    `difflib` ratio reaches it. `unit="turn"` lets a trajectory count once per turn in the first, as the release does.
    """
    played = turn_table.read(groups)
    place = _places(groups, played, similarity)
    at_state = turn_table.compared(turn_table.to_go(played, played.reward, gamma=gamma), place, played.tokens, norm)
    return turn_table.on_tokens(groups, played, _episode(played, norm, unit) + omega * at_state)


def hierarchical(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.95,
    depth: Natural = 2,
    alpha: NonNegative = 1.0,
    episode: bool = False,
) -> Credit:
    """HGPO (arXiv:2602.22817): a turn's return among those with the same state, and the same 1 to `depth` before it.

    The longer the history in common, the larger its weight, by the power `alpha`; 0 weighs them equally. A turn that
    nobody shares a state with earns 0, or its trajectory's advantage where `episode` adds that as one more level.
    """
    played = turn_table.read(groups)
    keys = states.histories(_places(groups, played), played.index, depth=depth)
    earned = states.blended(
        turn_table.to_go(played, played.reward, gamma=gamma),
        keys,
        played.tokens,
        partial(turn_table.compared, norm=norm),
        alpha=alpha,
        episode=_episode(played, norm, "trajectory") if episode else None,
    )
    return turn_table.on_tokens(groups, played, earned)


def _places(groups: Sequence[Group], played: Turns, similarity: float = 1.0) -> Ints:
    """Labels of states, of different groups differently (R,)."""
    seen = [turn.state for turn in turn_table.turns_of(groups)]
    if missing := seen.count(""):
        raise PartError(
            f"credit compares turns by their state, which {missing} of {len(seen)} turns lack: "
            "the environment must give info['state']"
        )
    group = played.group[played.trajectory]
    return states.similar(seen, group, threshold=similarity) if similarity < 1 else turn_table.labels(group, seen)


def _episode(played: Turns, norm: Normalization, unit: str) -> Floats:
    """The advantage of each turn's whole trajectory (R,)."""
    if unit == "trajectory":
        return turn_table.per_trajectory(played, norm)[played.trajectory]
    key = played.group[played.trajectory]
    return turn_table.compared(played.returns[played.trajectory], key, played.tokens, norm)
