"""CISPO (arXiv:2506.13585): GRPO whose ratios are capped as detached weights, so that every token keeps its gradient.

Deviations: the cap is 5 and not tuned; the paper's filter of groups and its length penalty are left out.
"""

from rl.methods.parts import reduce, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(surrogate=surrogate.cispo, reduce=reduce.token_mean)
