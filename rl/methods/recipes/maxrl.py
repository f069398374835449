"""MaxRL (arXiv:2602.02710): GRPO that divides by the group's mean reward: the rarer a success, the more it weighs.

For rewards of 0 and 1 the expected gradient approaches that of the log-likelihood of success as groups grow.

Deviations: the loss is GRPO's.
"""

from rl.methods.parts import scale
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(scale=scale.group_mean)
