"""Calls the parts that decide what becomes of a ticket, and checks what they return: once for a ticket or a group.

What is no result of such a part is a `PartError` that names it, in the words of the check when the run starts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NoReturn

from rl.methods.options import PartError
from rl.methods.recipe import Recipe
from rl.methods.results import describe, part_label, wrong_decision, wrong_groups
from rl.records import Group, Ticket
from rl.rollout.runner import Runner


async def play(recipe: Recipe, runner: Runner, ticket: Ticket) -> list[Group]:
    """Return the groups of a ticket that the strategy has played. Raises `PartError` for anything but such a list."""
    groups = await recipe.strategy(runner, ticket)
    if fault := wrong_groups(groups):
        _fail("strategy", recipe.strategy, fault)
    return groups


def keeps(recipe: Recipe, group: Group) -> bool:
    """Whether a group is trained on; one without a trajectory never is. Raises `PartError` for no truth value."""
    if not group.trajectories:
        return False
    is_kept = recipe.keep(group)
    if fault := wrong_decision(is_kept):
        _fail("keep", recipe.keep, fault)
    return bool(is_kept)


def shape_rewards(recipe: Recipe, group: Group) -> None:
    """Replace the rewards of a group by those that the shape parts make of them.

    Raises `PartError` unless there is then a finite number for each trajectory.
    """
    count = len(group.trajectories)
    for shape in recipe.shape if count else ():
        rewards = shape(group)
        try:
            group.rewards = [float(reward) for reward in rewards]
        except (TypeError, ValueError):
            expected = f"expected a list of {count} numbers, one per trajectory"
            _fail("shape", shape, f"returned {describe(rewards)}, {expected}")
        if not all(map(isfinite, group.rewards)):
            _fail("shape", shape, "returned rewards that are not finite numbers")
    if len(group.rewards) != count:
        raise PartError(f"shape returned {len(group.rewards)} rewards for the {count} members of a group")


def _fail(slot: str, part: Callable[..., Any], fault: str) -> NoReturn:
    raise PartError(f"{part_label(slot, part)}: {fault}")
