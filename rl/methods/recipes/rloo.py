"""RLOO (arXiv:2402.14740): REINFORCE with the mean of the other group members as baseline.

Deviations: no KL term in the reward, as that takes a second forward pass; add `penalty=(penalty.kl_k2,)` for one.
"""

from rl.methods.parts import baseline
from rl.methods.recipes import reinforce

recipe = reinforce.recipe.but(baseline=baseline.leave_one_out)
