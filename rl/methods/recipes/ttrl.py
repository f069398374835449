"""TTRL (arXiv:2504.16084): GRPO on the votes of a group's own members, for tasks without known answers.

Deviations: members without an answer have no vote; a quarter of the members must agree. All voters are trained.
"""

from functools import partial

from rl.methods.parts import strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=partial(strategy.majority_labels, least=0.25))
