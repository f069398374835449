"""PORTool (arXiv:2510.26020): GRPO on trees, plus the advantage of each turn among those forked at the same place.

Give the `--size` of the whole group: a quarter of it is played from the start, and branches double at every turn.

Deviations: forks are drawn before they are sampled and no branch is given up, where the paper begins with the whole
group, samples all forks and drops the surplus; a shared turn is worth the mean over its members and trained once, and
the discount is 0.9, as the paper's constants are not known to us; a turn's form earns nothing
(`credit=partial(credit.forked, valid=0.1)` pays it).
"""

from functools import partial

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.level_forks,
    credit=partial(credit.forked, once=True),
)
