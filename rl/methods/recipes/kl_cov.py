"""KL-Cov (arXiv:2505.22617): policy gradient with a penalty on the tokens that would lower the entropy most.

These are the two in 10,000 tokens, at least one, with the largest covariance of advantage and log-probability. It costs
one forward pass more.

Deviations: none.
"""

from rl.methods.parts import penalty, reduce, step, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    surrogate=surrogate.linear,
    step=(step.covariance,),
    penalty=(penalty.covariance,),
    reduce=reduce.token_mean,
)
