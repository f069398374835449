"""BranchGRPO (arXiv:2509.06040): GRPO on trees of turns that split before turns 2 and 4, compared depth by depth.

`--size` is the size of the whole group: a quarter of it is played from the start.

Deviations: the paper is about diffusion, where all branches are equally deep, and nothing is published for text. An
episode that has ended counts with its return at every later depth, so that going on keeps its price. Children weigh
alike, which is unbiased where they are sampled from the policy. Turns are left out of the gradient, never of the
episodes.
"""

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.scheduled_forks, credit=credit.depth_wise)
