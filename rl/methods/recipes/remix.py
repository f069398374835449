"""ReMix (arXiv:2507.06892): GRPO with a penalty towards both the reference and the policy before the update.

It costs two forward passes more.

Deviations: of the method's three parts only this one. Data of earlier updates comes from `--lag`, not from a store of
them; `--epochs 2` passes over it twice. The reference stays the first policy, and the weights of the two stay equal.
"""

from functools import partial

from rl.methods.parts import penalty
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(penalty=(partial(penalty.kl_convex, coef=0.01, base=0.5),))
