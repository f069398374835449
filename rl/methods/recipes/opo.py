"""OPO (arXiv:2505.23585): REINFORCE with the group's length-weighted mean as baseline.

The baseline has the least variance when the squared gradient of a trajectory grows with its length.

Deviations: none.
"""

from rl.methods.parts import baseline
from rl.methods.recipes import reinforce

recipe = reinforce.recipe.but(baseline=baseline.length_weighted_mean)
