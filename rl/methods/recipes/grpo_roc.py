"""GRPO-RoC (arXiv:2508.20722): GRPO on half of each group, of the successes those with the fewest invalid replies.

Give twice the `--size` to be trained on.

Deviations: the cleanest successes are taken, and the first failures, where the paper draws both; a penalty is the share
of replies that were not valid; members left out stay in the loss's denominator.
"""

from functools import partial

from rl.methods.parts import credit, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    credit=partial(credit.resampled_on_correct, keep=0.5),
    surrogate=partial(surrogate.clip, low=0.2, high=0.28),
)
