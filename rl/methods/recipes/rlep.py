"""RLEP (arXiv:2507.07451): GRPO whose groups are joined by recorded successes where not every member succeeded.

It has an effect only where tasks come back within a hundred updates: with more training tasks than that, nothing is
replayed.

Deviations: the successes are those of the run itself, where the paper collects them beforehand with a trained policy.
Their ratios are against the policy that sampled them, where the paper lets them start at 1.
"""

from functools import partial

from rl.methods.parts import reduce, strategy, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.replay(added=2, when="unsolved"),
    surrogate=partial(surrogate.dual_clip, low=0.2, high=0.28, cap=10.0),
    reduce=reduce.token_mean,
)
