"""StepWiser (arXiv:2508.19229): GRPO on trees, in which a turn also earns whether it keeps success within reach.

Each turn is labelled by the returns of the members that pass it, before and after.

Deviations: the labels are rewards themselves, where the paper trains a judge on them. The rollouts that a label rests
on are the group's own forks, as in `portool`.
"""

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.level_forks, credit=credit.chunk_labels)
