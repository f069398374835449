"""GRESO (arXiv:2506.02177): GRPO on groups with variance, which skips tasks that have long had none.

Deviations: tickets are opened one by one as groups are refused, where the paper asks for rounds of 1.25 times as many
prompts as are missing. What counts as solved is a mean reward of 0.98, whatever the environment's largest reward is.
"""

from rl.methods.parts import keep, sampler
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(sampler=sampler.skip_settled(), keep=keep.varied)
