"""PORTool (arXiv:2510.26020): GRPO, plus the advantage of each turn among those forked at the same place.

Deviations: members are played from the start and share what they happen to have in common; a shared turn is worth the
mean over its members, and the discount is 0.9, as the paper's constants are not known to us; a turn's form earns
nothing (`credit=partial(credit.forked, valid=0.1)` pays it).
"""

from rl.parts import credit
from rl.recipes import grpo

recipe = grpo.recipe.but(credit=credit.forked)
