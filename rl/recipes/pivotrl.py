"""PivotRL (arXiv:2603.21383): GRPO on turns of recorded trajectories where the policy succeeds now and then.

A task is one such turn and its verifier a functional equivalence with the expert's; groups that always agree, or
succeed too often, are replaced.

Deviations: a task is judged by the group that was just played, not by a profile made beforehand; the bound on its mean
is 0.6, as the paper's is not known to us.
"""

from functools import partial

from rl.parts import keep
from rl.recipes import grpo

recipe = grpo.recipe.but(keep=partial(keep.pivotal, below=0.6))
