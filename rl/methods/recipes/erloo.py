"""ERLOO (arXiv:2602.05885): TRLOO that compares a turn with all other turns of its group, whatever their index.

Its baseline contains the other turns of the same trajectory, which depend on this one: it is biased where TRLOO is not.

Deviations: as in `trloo`. The normalised form is `scale=scale.leave_one_out_std`.
"""

from functools import partial

from rl.methods.parts import credit
from rl.methods.recipes import trloo

recipe = trloo.recipe.but(credit=partial(credit.turn_returns, among="pooled"))
