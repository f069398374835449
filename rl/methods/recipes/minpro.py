"""MinPRO (arXiv:2601.22718): CISPO whose weight also holds the least ratio of the tokens before.

It stands for the product of their ratios, which would be the right weight and is unstable.

Deviations: the least runs over all turns of a trajectory. The clip is that of DAPO, as the paper's is not confirmed.
"""

from functools import partial

from rl.methods.parts import ratio, surrogate
from rl.methods.recipes import cispo

recipe = cispo.recipe.but(ratio=ratio.prefix_minimum, surrogate=partial(surrogate.cispo, low=0.2, high=0.28))
