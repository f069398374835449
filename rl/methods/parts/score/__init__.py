"""Numbers that a model supplies before credit: `async (scorer, groups) -> None`, filling `Turn.streams`.

A recipe rarely names the parts of `per_token` itself: `rl.methods.recipe.score_parts` adds the one that
fills a stream which another part reads.
"""

from rl.methods.parts.score.gain import answer_gain, feedback_gain
from rl.methods.parts.score.per_token import (
    draws,
    gradient_norm,
    proximal,
    reference,
    renewed_reference,
    reward,
    square,
    staleness,
    teacher,
    value,
)
from rl.methods.parts.score.reply import reply_advantage
from rl.methods.parts.score.scorer import PerTurn, Scorer

__all__ = [
    "PerTurn",
    "Scorer",
    "answer_gain",
    "draws",
    "feedback_gain",
    "gradient_norm",
    "proximal",
    "reference",
    "renewed_reference",
    "reply_advantage",
    "reward",
    "square",
    "staleness",
    "teacher",
    "value",
]
