"""BAPO (arXiv:2510.18927): GRPO whose clip widens in each step until successes weigh as much as failures.

It costs one forward pass more.

Deviations: a clipped token contributes nothing to the balance, since its gradient is 0; as released, it contributes its
bound (`measure="released"`). The target is a ratio of 1, where the paper's text has a share of 0.4 to 0.5.
"""

from functools import partial

from rl.methods.parts import reduce, step, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    step=(step.balanced_clip,),
    surrogate=partial(surrogate.adaptive_clip, cap=3.0),
    reduce=reduce.token_mean,
)
