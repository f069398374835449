"""M2PO (arXiv:2510.01161): GRPO that leaves out the few tokens that moved furthest, instead of clipping all.

Tokens whose ratio moved to where their advantage pushes are left out, largest first, until the mean square of the
others' log-ratios is below 0.04; nothing else is clipped. It costs one forward pass more.

Deviations: the mask of AReaL, on the tokens of the authors' clip (theirs is `step=(step.second_moment_clip,)` with
`surrogate=surrogate.adaptive_clip`; AReaL's mask is `step=(step.mismatch_second_moment,)`).
"""

from rl.methods.parts import step, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(step=(step.second_moment,), surrogate=surrogate.linear)
