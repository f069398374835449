"""SPIRAL (arXiv:2506.24119): self-play; each seat's return against a moving average of what that seat has earned.

The average takes the place of a group, so `--size 1`, an episode per task, is enough, and a seat that wins more often
only because it moves first earns nothing by that. The loss is that of Dr. GRPO, as in the authors' code.

Deviations: a run plays one environment, so that an average belongs to a seat and not to a game and a seat. The
constant divisor is that of `dr_grpo`. Trajectories without an advantage stay in the loss's denominator, where the
authors' code leaves them out.
"""

from rl.methods.parts import baseline, credit
from rl.methods.recipes import dr_grpo

recipe = dr_grpo.recipe.but(credit=credit.role_average(), baseline=baseline.none)
