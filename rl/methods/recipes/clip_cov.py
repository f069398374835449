"""Clip-Cov (arXiv:2505.22617): GRPO that leaves out some tokens with a large covariance, which lower the entropy.

It costs one forward pass more.

Deviations: the tokens are spread evenly over those within the bounds, where the paper draws them: the middle one where
there is one to leave out, as in a step of fewer than 10,000 tokens.
"""

from rl.methods.parts import reduce, step
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(step=(step.covariance_clip,), reduce=reduce.token_mean)
