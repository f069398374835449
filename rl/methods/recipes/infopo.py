"""InfoPO (arXiv:2603.00656): GRPO, plus the gain of turns whose feedback changed the next reply, where outcomes agree.

The next reply is scored after what was said and after a placeholder in its place. `--score none` takes an environment's
metric `gain` instead.

Deviations: groups whose gate would let less than a hundredth through are not scored (`below` of the score part); gains
are standardised per turn, so that long ones weigh no more (as released: `credit=partial(credit.gated_gain,
per_token=True)`); the weight of gains stays as it is over the run.
"""

from rl.methods.parts import credit, score
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(score=(score.feedback_gain,), credit=credit.gated_gain)
