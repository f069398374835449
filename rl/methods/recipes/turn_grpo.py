"""Turn-wise GRPO (arXiv:2602.05885): a turn's return, the reward from it on, against the same turn of other members.

Where only the last turn has a reward and `gamma` is 1, it is GRPO.

Deviations: a member whose episode is over stays in the comparison with its last turn's return, so that the choice to go
on keeps its price (the release compares those still playing: `credit=partial(credit.turn_returns, among="alive")`). The
unit is GRPO's standard deviation of a group's returns, one for all turns, where the release has none.
"""

from rl.methods.parts import credit
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(credit=credit.turn_returns)
