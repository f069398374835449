"""ADHint (2025): GRPO whose groups play half with a hint, as long as the task is hard; hinted members weigh otherwise.

Deviations: a hint is context and never trained, so that its tokens need no weights of their own. The forms of the
length and the weights are reconstructed. The solution is the oracle's.
"""

from rl.methods.parts import reweigh, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.hinted, reweigh=(reweigh.by_hint,))
