"""ETTRL (arXiv:2508.11356): TTRL on trees that fork where replies are uncertain; sure members weigh more.

Deviations: forks leave before uncertain replies, as in `entropy_forks`, and not within one; an episode of one turn has
none. Entropies are estimated from what was sampled. Factors are at least 0. A shared turn is trained once.
"""

from functools import partial

from rl.methods.parts import credit, reweigh, strategy
from rl.methods.recipes import ttrl

recipe = ttrl.recipe.but(
    strategy=partial(strategy.majority_labels, least=0.25, forks="entropy"),
    credit=partial(credit.shared_prefix, once=True),
    reweigh=(reweigh.calm,),
)
