"""GMPO (arXiv:2507.20673): GRPO that maximises the geometric mean of a trajectory's ratios, each clipped before.

Deviations: the mean runs over the sampled tokens of all turns. A trajectory must have one advantage, so credit parts
that tell turns apart are refused.
"""

from rl.methods.parts import surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(surrogate=surrogate.geometric_clip)
