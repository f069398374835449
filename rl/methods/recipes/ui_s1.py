"""UI-S1 (arXiv:2509.11543): a recorded expert is followed, and credit joins the episode's and the turn's.

The expert is the environment's own oracle, so it works with any environment that has one. A reply that does otherwise
is replaced by the expert's, twice in an episode. `success/mean` is the share of episodes without a mismatch.

Deviations: a reply matches by what it does to the environment, not by its text, and is either right or wrong (the paper
also rewards the right kind of action). An episode is compared by its own reward, once (the release compares single
turns over all turns of the group and keeps the reward of one that is alone:
`credit=partial(credit.matched_returns, unit="turn", singleton="raw")`). Groups are kept by the spread of episodes'
rewards, not of first turns' returns. A turn or an episode that is alone has advantage 0. There is no KL term.
"""

from functools import partial

from rl.methods.parts import credit, keep, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=partial(strategy.semi_online, patches=2),
    keep=partial(keep.spread, least=0.3),
    credit=credit.matched_returns,
)
