"""PORTool (arXiv:2510.26020): GRPO on trees, plus the advantage of each turn among those forked at the same place.

`--size` is the size of the whole group: a quarter of it is played from the start, and branches double at every turn.

Deviations: forks are drawn before they are sampled and no branch is given up, where the paper begins with the whole
group, samples all forks and drops the surplus. A shared turn is worth the mean over its members and is trained once.
The discount is 0.9, because the paper's constants could not be confirmed. The form of a turn is not rewarded
(`credit=partial(credit.forked, valid=0.1)` does that).
"""

from functools import partial

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.level_forks,
    credit=partial(credit.forked, once=True),
)
