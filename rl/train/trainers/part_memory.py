"""What a learner's parts of a recipe remember between updates, which the run keeps and the ranks change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl.methods.recipe import Recipe

LEARNER_SLOTS = ("step", "phases", "passes", "ratio", "surrogate", "select", "penalty", "reduce")


def part_memory(recipe: Recipe) -> dict[str, Any]:
    """Return the state of every part that a learner calls and that has one, by its place."""
    return {place: part.state_dict() for place, part in _parts(recipe).items()}


def load_part_memory(recipe: Recipe, memory: Mapping[str, Any]) -> None:
    """Restore what `part_memory` returned."""
    for place, part in _parts(recipe).items():
        part.load_state_dict(memory[place])


def _parts(recipe: Recipe) -> dict[str, Any]:
    return {
        place: part
        for place, part in recipe.parts()
        if place.partition(".")[0] in LEARNER_SLOTS and hasattr(part, "state_dict")
    }
