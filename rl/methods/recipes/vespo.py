"""VESPO (arXiv:2602.10693): each trajectory weighed by a smooth function of its whole ratio, without clip or length.

Deviations: the ratio is against the sampler's record, in one factor. The loss is a mean over trajectories of means over
tokens.
"""

from rl.methods.parts import ratio, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(ratio=ratio.sequence_product, surrogate=surrogate.gamma_weight)
