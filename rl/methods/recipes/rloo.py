"""RLOO (arXiv:2402.14740): REINFORCE with the mean of the other group members as baseline.

Deviations: there is no KL term in the reward, which would take a second forward pass; `penalty=(penalty.kl_k2,)` adds
one to the loss.
"""

from rl.methods.parts import baseline
from rl.methods.recipes import reinforce

recipe = reinforce.recipe.but(baseline=baseline.leave_one_out)
