"""UI-S1 (arXiv:2509.11543): semi-online: a recorded expert is followed, and credit joins the episode's and the turn's.

It wants an environment that replays a record and says in `info["metrics"]["matched"]` whether a reply did the same.

Deviations: an episode is compared by its own reward, once (the release compares single turns over all turns of the
group, `credit=partial(credit.matched_returns, unit="turn")`); a turn or an episode that is alone earns nothing; no KL.
"""

from functools import partial

from rl.parts import credit, keep
from rl.recipes import grpo

recipe = grpo.recipe.but(keep=partial(keep.spread, least=0.3), credit=credit.matched_returns)
