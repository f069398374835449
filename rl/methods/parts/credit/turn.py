"""Credit from the returns of single turns, compared with those of other turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rl.methods.estimators import turn_table
from rl.methods.estimators.turn_table import Credit
from rl.methods.options import NonNegative, Share
from rl.records import Group

if TYPE_CHECKING:
    from rl.methods.inputs import Normalization


def turn_returns(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 1.0,
    among: Literal["members", "padded", "alive", "pooled", "agent"] = "members",
    improvement: bool = False,
) -> Credit:
    """Turn-wise GRPO: the reward from this turn on, `G_k = r_k + gamma * G_{k+1}`, against `baseline` by `scale`.

    `among` says what it is compared with. `"members"`: the same turn of all members of the group; one whose episode is
    over stands with its last turn's return, so that going on keeps its price, and every turn keeps the same share of
    the gradient however few reached it. `"padded"`: the same, an ended one standing with 0. As other trainers ship it,
    `"alive"`: the same turn of those who reached it; `"agent"`: those of the same agent (AT-GRPO); `"pooled"`: all
    turns of the group. `gamma=0` compares each turn's own reward. `improvement` first takes from each reward that of
    the turn before, for rewards that score the state of the work.
    """
    played = turn_table.read(groups)
    rewards = turn_table.improvement(played, played.reward) if improvement else played.reward
    values = turn_table.to_go(played, rewards, gamma=gamma)
    if among in ("members", "padded"):
        ended = "last" if among == "members" else "zero"
        return turn_table.on_tokens(groups, played, turn_table.compared_by_turn(played, values, norm, ended=ended))
    key = [played.group[played.trajectory]]
    if among != "pooled":
        key.append(played.index)
    if among == "agent":
        agents = turn_table.labels([trajectory.agent for trajectory in turn_table.trajectories(groups)])
        key.append(agents[played.trajectory])
    return turn_table.on_tokens(
        groups, played, turn_table.compared(values, turn_table.labels(*key), played.tokens, norm)
    )


def matched_returns(
    groups: Sequence[Group],
    norm: Normalization,
    *,
    gamma: Share = 0.5,
    episode: NonNegative = 1.0,
    turn: NonNegative = 1.0,
    matched: str = "matched",
    unit: Literal["trajectory", "turn"] = "trajectory",
) -> Credit:
    """UI-S1 (arXiv:2509.11543): turns played against a recorded expert, by episode and by turn.

    `G_k = r_k + gamma * G_{k+1}` while turns do as the expert (their stream or metric `matched` is not 0). One that
    does not has `G_k = r_k` and is not seen by those before it: after it the record goes on without it. The advantages
    of the trajectory's reward in its group, and of `G_k` among the same turns of those who reached it, are added with
    weights `episode` and `turn`. `unit="turn"` compares single rewards over all turns of the group for the first, as
    the release does.
    """
    played = turn_table.read(groups)
    group = played.group[played.trajectory]
    values = turn_table.to_go(played, played.reward, gamma=gamma, matched=turn_table.numbers(groups, matched) != 0)
    by_turn = turn_table.compared(values, turn_table.labels(group, played.index), played.tokens, norm)
    if unit == "trajectory":
        whole = turn_table.per_trajectory(played, norm)[played.trajectory]
    else:
        whole = turn_table.compared(played.reward, group, played.tokens, norm)
    return turn_table.on_tokens(groups, played, episode * whole + turn * by_turn)
