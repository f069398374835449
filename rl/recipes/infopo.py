"""InfoPO (arXiv:2603.00656): GRPO, plus the gain of turns whose feedback changed the next reply, where outcomes agree.

A turn's gain is its stream `gain`, or else the environment's metric of that name.

Deviations: gains are standardised per turn, so that long ones weigh no more (as released:
`credit=partial(credit.gated_gain, per_token=True)`); the weight of gains stays as it is over the run.
"""

from rl.parts import credit
from rl.recipes import grpo

recipe = grpo.recipe.but(credit=credit.gated_gain)
