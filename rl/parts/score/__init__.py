"""Numbers a model must supply before credit: `async (scorer, groups) -> None`, filling `Turn.streams`.

A recipe rarely names `value` and `reference` itself: `rl.recipe.scores` adds the one that gives a stream another part
reads.
"""

from rl.parts.score.gain import answer_gain, feedback_gain
from rl.parts.score.per_token import reference, value
from rl.parts.score.reply import reply_advantage
from rl.parts.score.scorer import Branch, PerTurn, Scorer

__all__ = ["Branch", "PerTurn", "Scorer", "answer_gain", "feedback_gain", "reference", "reply_advantage", "value"]
