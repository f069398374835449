"""PivotRL (arXiv:2603.21383): GRPO on turns of recorded trajectories where the policy succeeds now and then.

The records are the environment's own oracle's, so any environment that has one will do. An episode is one turn, and a
reply succeeds by doing what the expert's did; groups that always agree, or succeed too often, are replaced.

Deviations: a turn is drawn anew for every group and judged by the group that was just played, not by a profile made
beforehand; the bound on its mean is 0.6, as the paper's is not known to us.
"""

from functools import partial

from rl.methods.parts import keep, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.pivot, keep=partial(keep.pivotal, below=0.6))
