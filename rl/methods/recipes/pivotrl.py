"""PivotRL (arXiv:2603.21383): GRPO on turns of recorded trajectories where the policy succeeds now and then.

The records are those of the environment's own oracle, so it works with any environment that has one. An episode is one
turn, and a reply succeeds by doing what the expert's reply did. Groups whose members all agree, or succeed too often,
are replaced.

Deviations: a turn is drawn anew for every group and judged by the group that was just played, not by a profile made
beforehand. The bound on its mean is 0.6, because the paper's could not be confirmed.
"""

from functools import partial

from rl.methods.parts import keep, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.pivot, keep=partial(keep.pivotal, below=0.6))
