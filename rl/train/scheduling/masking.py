"""The recipe of updates that leave out tokens that are too old."""

from __future__ import annotations

from functools import partial

from rl.methods.parts import select
from rl.methods.recipe import Recipe
from rl.schedule import Schedule


def mask_stale(schedule: Schedule, recipe: Recipe) -> Recipe:
    """Return `recipe`, without the tokens that are more than `max_lag` updates old if the schedule masks them."""
    if schedule.max_lag is None or schedule.stale != "mask":
        return recipe
    return recipe.but(select=(*recipe.select, partial(select.recent, updates=schedule.max_lag)))
