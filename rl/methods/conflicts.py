"""Parts that must not be combined: each says so itself, by `rl.methods.parts.traits`; found before a run begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rl.methods.parts import FAR_ENGINE, SEVERAL

if TYPE_CHECKING:
    from rl.methods.recipe import Recipe


def find_conflict(recipe: Recipe, size: int, *, is_engine_far: bool = False, has_journal: bool = False) -> str:
    """One line about the first two parts of `recipe` that exclude each other, or a part and `size`; "" without any.

    `size` is the number of members of a group; `is_engine_far` says that the run samples with another engine than its
    own hf, `has_journal` that it has one of finished groups.
    """
    parts = list(_functions(recipe))
    for slot, part in parts:
        excludes = getattr(part, "excludes", {})
        if is_engine_far and FAR_ENGINE in excludes:
            return f"{slot} {part.__name__}: {excludes[FAR_ENGINE]}; take --engine hf and --engines 1"
        if has_journal and slot == "strategy" and hasattr(part, "state_dict"):
            return f"strategy {part.__name__} remembers what it has played, which no journal tells; leave out --journal"
        if size > 1 and SEVERAL in excludes:
            return f"{slot} {part.__name__} with --size {size}: {excludes[SEVERAL]}"
        for other_slot, other in parts:
            for trait in getattr(other, "traits", ()):
                if trait in excludes and other is not part:
                    return f"{slot} {part.__name__} with {other_slot} {other.__name__}: {excludes[trait]}"
        for other_slot, names in getattr(part, "expects", {}).items():
            for actual in [name for place, name in _names(parts) if place == other_slot]:
                if actual not in names:
                    allowance = " or ".join(names)
                    return f"{slot} {part.__name__} with {other_slot} {actual}: it goes with {other_slot} {allowance}"
    return ""


def excludes(recipe: Recipe, trait: str) -> bool:
    """Whether a part of `recipe` does not go with another of this trait."""
    return any(trait in getattr(part, "excludes", {}) for _, part in _functions(recipe))


def has(recipe: Recipe, trait: str) -> bool:
    """Whether a part of `recipe` has this trait."""
    return any(trait in getattr(part, "traits", ()) for _, part in _functions(recipe))


def _functions(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """The slot, and the function or class, of every part."""
    for place, part in recipe.parts():
        function = getattr(part, "func", part)
        yield place.partition(".")[0], function if hasattr(function, "__name__") else type(function)


def _names(parts: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(slot, part.__name__) for slot, part in parts]
