"""Asks the judge of a run about groups that have ended, before their rewards are shaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rl.methods.options import PartError
from rl.methods.parts.verdict import Judge
from rl.methods.parts.verdict.questions import wrong_verdict
from rl.methods.recipe import Recipe
from rl.records import Group


async def ask_judge(recipe: Recipe, judge: Judge | None, groups: Sequence[Group]) -> None:
    """Let the recipe's verdict parts ask about each group; without such parts nobody is asked.

    Raises `PartError` for a part that writes another metric than a finite number, and where the judge is gone.
    """
    for group in groups if recipe.verdict else ():
        for verdict in recipe.verdict:
            await verdict(cast(Judge, judge), group)
        if fault := wrong_verdict(group):
            raise PartError(f"a part of --verdict {fault}, expected a finite number")
