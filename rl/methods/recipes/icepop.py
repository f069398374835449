"""IcePop (arXiv:2510.18855): TIS that drops tokens on which trainer and sampler differ too much, instead of a cap.

Deviations: dropped tokens stay in the loss's denominator.
"""

from functools import partial

from rl.methods.parts import select
from rl.methods.recipes import tis

recipe = tis.recipe.but(select=(partial(select.mismatch_icepop, low=0.5, high=5.0),))
