"""REINFORCE (Williams 1992): each trajectory's return weighs the log-probability of its tokens.

There is no baseline and no correction for the policy that sampled: the gradient is exact on policy only.

Deviations: none.
"""

from rl.methods.parts import baseline, ratio, reduce, surrogate
from rl.methods.recipe import Recipe

recipe = Recipe(
    baseline=baseline.none,
    ratio=ratio.on_policy,
    surrogate=surrogate.linear,
    reduce=reduce.sequence_sum,
)
