"""Decoupled PPO (arXiv:2110.00641): PPO whose ratios are against the policy before the update, not the sampler's.

How far that policy had moved from the sampler's weighs each token, as in AReaL (arXiv:2505.24298), at most by 5.

Deviations: the paper's weight has no cap. The policy before the update is computed exactly (one forward pass more),
where the paper has an average of past weights.
"""

from functools import partial

from rl.methods.parts import select
from rl.methods.recipes import ppo

recipe = ppo.recipe.but(select=(partial(select.mismatch_tis, cap=5.0),))
