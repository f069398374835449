"""REINFORCE++-baseline (arXiv:2501.03262): the group's mean is subtracted first, then tokens are standardised.

Deviations: there is no KL term (the paper's is `penalty=(penalty.kl_k2,)`). A group of one has reward 0 before tokens
are standardised.
"""

from functools import partial

from rl.methods.parts import baseline, credit
from rl.methods.recipes import reinforce_pp

recipe = reinforce_pp.recipe.but(credit=partial(credit.outcome, whiten=True), baseline=baseline.group_mean)
