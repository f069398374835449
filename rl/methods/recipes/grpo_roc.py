"""GRPO-RoC (arXiv:2508.20722): GRPO on half of each group, with those successes that have the fewest invalid replies.

`--size` is twice the number of members to be trained on.

Deviations: the cleanest successes and the first failures are taken, where the paper draws both. The penalty is the
share of replies that were not valid (`penalty` of the credit part names another). Members that are left out stay in the
loss's denominator.
"""

from functools import partial

from rl.methods.parts import credit, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    credit=partial(credit.resampled_on_correct, keep=0.5),
    surrogate=partial(surrogate.clip, low=0.2, high=0.28),
)
