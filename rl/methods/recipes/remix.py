"""ReMix (arXiv:2507.06892): GRPO on new and stored groups, with a penalty towards the reference and the last policy.

It costs two forward passes more.

Deviations: the share of new groups is 0.6, the others are at most two updates old; advantages are computed anew.
`--epochs 2` passes over the data twice. The reference stays the first policy, as there is no reincarnation, and the
weights of the two penalties stay equal.
"""

from functools import partial

from rl.methods.parts import penalty, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.replay_groups(fresh=0.6, oldest=2),
    penalty=(partial(penalty.kl_convex, coef=0.01, base=0.5),),
)
