"""One dry call of a whole recipe, from the choice of a task to the gradient, before any work."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from types import FunctionType
from typing import Any

from rl.checks import records
from rl.checks.parts import Place, RecipeFault
from rl.checks.toy import Sample
from rl.methods.conflicts import find_conflict
from rl.methods.recipe import Recipe

MAX_SIZE = 8  # members of a toy group


def check_recipe(recipe: Recipe, *, size: int = 4, updates: int = 10, sample: Sample | None = None) -> None:
    """Call every part of `recipe` as a run would, on a few toy episodes without a model; takes well below a second.

    A copy of the recipe is called, so that parts with state keep theirs. What depends on the run's own environment,
    such as the names of its metrics, is not checked.

    Args:
        recipe: The parts to check.
        size: Members of a toy group, held within 2 and `MAX_SIZE`.
        updates: Updates of the whole run, for the schedule.
        sample: What the run's environment shows; the toy episodes show the same.

    Raises:
        RecipeFault: Two parts exclude each other, or a part is wrong: it cannot be called, raises an exception, changes
            what it is given, or returns something else than its slot asks for. The message is one line that names slot
            and part.

    """
    from rl.checks.loss import check_loss  # imports torch

    if not isinstance(recipe, Recipe):
        raise RecipeFault(f"{recipe!r:.80} is no Recipe; rl.methods.recipe.load(NAME or 'file.py') returns one")
    recipe = deepcopy(recipe)
    if conflict := find_conflict(recipe, size):
        raise RecipeFault(conflict)
    memories = {place: _memory(part) for place, part in recipe.parts()}
    records.check_sampler(recipe)
    records.check_allot(recipe, size)
    records.check_schedule(recipe, updates)
    records.check_normalization(recipe)
    groups = records.play(recipe, min(max(size, 2), MAX_SIZE), sample or Sample())
    records.check_verdict(recipe, groups)
    records.check_shape_and_keep(recipe, groups)
    records.check_score(recipe, groups)
    advantages = records.credit(recipe, groups)
    check_loss(recipe, records.rows(recipe, groups, advantages))
    for place, part in recipe.parts():
        if not hasattr(part, "state_dict") and _memory(part) != memories[place]:
            slot = place.partition(".")[0]
            Place(slot, part).fail(
                "keeps numbers between calls that no checkpoint holds; define state_dict() and load_state_dict()"
            )


def _memory(part: Any) -> str:
    """What an object of a class keeps, as a text; "" for a function."""
    return repr(getattr(part, "__dict__", "")) if not isinstance(part, partial | FunctionType) else ""


def learns_from_single_episodes(recipe: Recipe) -> bool:
    """Whether groups of one episode are kept and can have an advantage, tried on episodes of one turn.

    Imports no torch.

    Raises `RecipeFault` if a part on the way there is wrong.
    """
    recipe = deepcopy(recipe)
    groups = records.play(recipe, 1, Sample(), max_turns=1)
    records.check_verdict(recipe, groups)
    records.check_shape_and_keep(recipe, groups)
    if not any(map(recipe.keep, groups)):
        return False
    records.check_score(recipe, groups)
    return any(array.any() for of_group in records.credit(recipe, groups) for array in of_group)
