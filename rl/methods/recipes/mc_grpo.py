"""MC-GRPO (arXiv:2601.22582): GRPO that compares with the group's median, in units of the median deviation.

`--size` is one more than the members that teach: the one at the median has advantage 0.

Deviations: the unit is at least a quarter of the range of the group's rewards, and advantages are held within 5,
because the median deviation of most groups of 0s and 1s is 0 (`scale=partial(scale.group_mad, floor=0.0, most=inf)`).
The member at the median stays in the loss's denominator.
"""

from rl.methods.parts import baseline, scale
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(baseline=baseline.group_median, scale=scale.group_mad)
