"""TOPR (arXiv:2503.14286): REINFORCE off policy: successes at full weight, failures as far as they are still likely.

The weight of a failure is the ratio of its whole trajectory, at most 1.

Deviations: rewards are compared with their group's mean, without which a reward of 0 has no gradient. The ratio of a
long trajectory is soon 0; `ratio=ratio.sequence` takes the mean of its log-ratios.
"""

from rl.methods.parts import baseline, ratio, surrogate
from rl.methods.recipes import reinforce

recipe = reinforce.recipe.but(baseline=baseline.group_mean, ratio=ratio.sequence_product, surrogate=surrogate.tapered)
