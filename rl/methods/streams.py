"""Numbers per token that a run computes only where a part of its recipe asks for them. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rl.methods.parts import score
from rl.methods.recipe import Recipe, Score, function_of

_SOURCES: dict[str, Score] = {
    "ref": score.reference,
    "value": score.value,
    "proximal": score.proximal,
    "reward": score.reward,
    "staleness": score.staleness,
    "teacher": score.teacher,
    "square": score.square,
    "gradient_norm": score.gradient_norm,
    "draws": score.draws,
}


def needs(recipe: Recipe, stream: str) -> bool:
    """Whether a part of `recipe` reads or fills `stream`, numbers per token that a run computes only on demand.

    The streams are `"ref"`, log-probabilities of a frozen reference policy; `"value"`, values of a critic;
    `"proximal"`, log-probabilities by the trainer before the update; `"reward"`, `"staleness"`, `"teacher"`, `"square"`
    and `"gradient_norm"`, see the score parts of these names; and `"entropy"`, which is always computed, but with its
    gradient only for a part that needs it. `"logp"` is what a step part needs that reads the current policy. `"answer"`
    stands for the environment's `info["answer"]`. Any other name is False.
    """
    source = _SOURCES.get(stream)
    return any(stream in _streams_of(part) or function_of(part) is source for _, part in recipe.parts())


def asks_for_reference(recipe: Recipe) -> bool:
    """Whether a run of `recipe` keeps a frozen reference policy: for its numbers, or for a part that asks it itself."""
    return needs(recipe, "ref") or needs(recipe, "frozen")


def score_parts(recipe: Recipe) -> tuple[Score, ...]:
    """The score parts that an update calls: the recipe's own, then those that fill a stream another part reads."""
    functions = [function_of(part) for part in recipe.score]
    sources = (source for stream, source in _SOURCES.items() if needs(recipe, stream))
    return (*recipe.score, *(source for source in sources if source not in functions))


def _streams_of(part: Callable) -> tuple[str, ...]:
    """The streams that `part` reads, as its `needs` decorator says."""
    function = function_of(part)
    condition, exception = getattr(function, "needs_when", ""), getattr(function, "needs_unless", "")
    bound = part.keywords if isinstance(part, partial) else getattr(part, "__dict__", {})
    is_active = (not condition or bound.get(condition)) and not (exception and bound.get(exception))
    return getattr(function, "needs", ()) if is_active else ()
