"""Flow-GRPO (arXiv:2510.05592): every turn of the trained module has the outcome's advantage and weighs the same.

Deviations: an episode counts once in its group however many turns it has (the release counts turns, which is
`credit=partial(credit.turn_returns, among="pooled")`). There is no KL term, whose reference policy would double the
forward passes.
"""

from functools import partial

from rl.methods.parts import reduce, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(surrogate=partial(surrogate.clip, low=0.2, high=0.3), reduce=reduce.turn_mean)
