"""ARRoL (arXiv:2603.24840): GRPO on the half of each group that a small network expects to balance best.

Deviations: the authors' rule and code are not public; the chances are a reconstruction from their aims. Members are
judged after a quarter of the median reply instead of 512 tokens, and by the network's fit to the last 1,024 members
that were kept. With two members one is left, which teaches nothing.
The other half is left out of baselines, without weights that would undo the selection.
"""

from rl.methods.parts import strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.pruned())
