"""GDPO (arXiv:2601.05242): GRPO that standardises each named reward by itself before it adds them up.

Deviations: the sum is standardised over the trajectories of the update (over tokens with
`credit=partial(credit.decoupled, per_token=True)`). Where the environment names no rewards, there is one.
"""

from rl.methods.parts import credit
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(credit=credit.decoupled)
