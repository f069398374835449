"""InfoPO (arXiv:2603.00656): GRPO, plus the gain of turns whose feedback changed the next reply, where outcomes agree.

The next reply is scored after the real feedback and after a placeholder in its place. `--score none` reads an
environment's metric `gain` instead.

Deviations: groups whose gate would let less than a hundredth through are not scored (`below` of the score part). Gains
are standardised per turn, so that long ones weigh no more (as released: `credit=partial(credit.gated_gain,
per_token=True)`). The weight of gains is constant over the run.
"""

from rl.methods.parts import credit, score
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(score=(score.feedback_gain,), credit=credit.gated_gain)
