"""Credit from the returns of single turns, compared with those of other turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rl.options import NonNegative, Share
from rl.parts import turns
from rl.parts.turns import Credit
from rl.records import Group

if TYPE_CHECKING:
    from rl.recipe import Recipe


def turn_returns(
    groups: Sequence[Group],
    recipe: Recipe,
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
    played = turns.read(groups)
    rewards = turns.improvement(played, played.reward) if improvement else played.reward
    values = turns.to_go(played, rewards, gamma=gamma)
    if among in ("members", "padded"):
        ended = "last" if among == "members" else "zero"
        return turns.on_tokens(groups, played, turns.compared_by_turn(played, values, recipe, ended=ended))
    key = [played.group[played.trajectory]]
    if among != "pooled":
        key.append(played.index)
    if among == "agent":
        agents = turns.labels([trajectory.agent for trajectory in turns.trajectories(groups)])
        key.append(agents[played.trajectory])
    return turns.on_tokens(groups, played, turns.compared(values, turns.labels(*key), played.tokens, recipe))


def matched_returns(
    groups: Sequence[Group],
    recipe: Recipe,
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
    played = turns.read(groups)
    group = played.group[played.trajectory]
    values = turns.to_go(played, played.reward, gamma=gamma, matched=turns.numbers(groups, matched) != 0)
    by_turn = turns.compared(values, turns.labels(group, played.index), played.tokens, recipe)
    if unit == "trajectory":
        whole = turns.per_trajectory(played, recipe)[played.trajectory]
    else:
        whole = turns.compared(played.reward, group, played.tokens, recipe)
    return turns.on_tokens(groups, played, episode * whole + turn * by_turn)
