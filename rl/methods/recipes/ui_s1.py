"""UI-S1 (arXiv:2509.11543): semi-online: a recorded expert is followed, and credit joins the episode's and the turn's.

The expert is the environment's own oracle, so any environment that has one will do; a reply that does otherwise is
patched with the expert's, twice in an episode. `success/mean` is then the share of episodes without a mismatch.

Deviations: a reply matches by what it does to the environment, not by its words, and is either right or wrong (the
paper also pays for the right kind of action); an episode is compared by its own reward, once (the release compares
single turns over all turns of the group, `credit=partial(credit.matched_returns, unit="turn")`); groups are kept by the
spread of episodes' rewards, not of first turns' returns; a turn or an episode that is alone earns nothing; no KL.
"""

from functools import partial

from rl.methods.parts import credit, keep, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=partial(strategy.semi_online, patches=2),
    keep=partial(keep.spread, least=0.3),
    credit=credit.matched_returns,
)
