"""Numbers a model must supply before credit: `async (scorer, groups) -> None`, filling `Turn.streams`.

A recipe rarely names `value` and `reference` itself: `rl.methods.recipe.scores` adds the one that gives a stream another part
reads.
"""

from rl.methods.parts.score.gain import answer_gain, feedback_gain
from rl.methods.parts.score.per_token import reference, value
from rl.methods.parts.score.reply import reply_advantage
from rl.methods.parts.score.scorer import PerTurn, Scorer

__all__ = ["PerTurn", "Scorer", "answer_gain", "feedback_gain", "reference", "reply_advantage", "value"]
