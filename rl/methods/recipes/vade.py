"""VADE (arXiv:2511.18902): GRPO on tasks whose success rate, as far as it is known, varies most.

Deviations: the rules of forgetting are our reading of its two scales of decay; tasks are drawn one by one and not as
the best of one draw. Successes are counted, not rewards in parts.
"""

from rl.methods.parts import sampler
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(sampler=sampler.variance_bandit())
