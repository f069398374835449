"""GiGPO (arXiv:2505.10978): GRPO, plus the advantage of each turn among all that stood before the same state.

Deviations: rewards keep their unit on both levels (the paper's other form is `scale=scale.group_std`); an episode
counts once in its group however many turns it has; no KL term. Invalid replies cost what the environment says
(`shape=(shape.invalid_turns,)` takes 0.1 more for each).
"""

from rl.methods.parts import credit, scale
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(credit=credit.anchored, scale=scale.none)
