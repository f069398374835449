"""OTB (arXiv:2602.07078): REINFORCE with a baseline of least variance at each token; it costs one forward pass more.

Deviations: tokens of several turns are counted together, as in the multi-turn form. Tokens that only the longest member
has are not trained (`credit=partial(credit.optimal_token, zero_tail=True)` trains them without a baseline).
"""

from rl.methods.parts import credit
from rl.methods.recipes import reinforce

recipe = reinforce.recipe.but(credit=credit.optimal_token)
