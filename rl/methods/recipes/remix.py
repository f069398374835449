"""ReMix (arXiv:2507.06892): GRPO on new and stored groups, with a penalty towards the reference and the last policy.

After a hundred updates it goes on with new groups alone, from the policy of then as the reference (reincarnation). It
costs two forward passes more.

Deviations: the share of new groups is 0.6, the others are at most two updates old; advantages are computed anew.
`--epochs 2` passes over the data twice. The switch comes at a fixed update (`--score renewed_reference:at=N` with
`--strategy replay_groups:fresh=0.6,oldest=2,until=N`), and the weights of the two penalties stay equal.
"""

from functools import partial

from rl.methods.parts import penalty, score, strategy
from rl.methods.recipes import grpo

SWITCH = 100  # updates

recipe = grpo.recipe.but(
    strategy=strategy.replay_groups(fresh=0.6, oldest=2, until=SWITCH),
    score=(partial(score.renewed_reference, at=SWITCH),),
    penalty=(partial(penalty.kl_convex, coef=0.01, base=0.5),),
)
