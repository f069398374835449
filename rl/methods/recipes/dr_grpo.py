"""Dr. GRPO (arXiv:2503.20783): GRPO without its two biases: no division by the group's deviation, nor by length.

Deviations: the constant divisor is multiplied by the number of trajectories, so that the gradient does not grow with
the batch; set `length` to the most tokens an episode may sample.
"""

from functools import partial

from rl.methods.parts import reduce, scale
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(scale=scale.none, reduce=partial(reduce.constant, length=1024))
