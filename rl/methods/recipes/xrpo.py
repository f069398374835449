"""XRPO (arXiv:2510.06672): GRPO with episodes where they tell most, and a bonus for unlikely successes.

Deviations: the budget is that of the groups which are opened together, shared out once after half of it was played. No
solved examples are put into the prompt.
"""

from rl.methods.parts import reweigh, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.by_priority(), reweigh=(reweigh.novel_successes,))
