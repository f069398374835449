"""IGPO (arXiv:2510.14967): GRPO in which every turn is also paid by how much likelier it made the true answer.

The answer is the environment's `info["answer"]`, scored as the policy's next reply. `--score none` reads a metric
`gain` of the environment instead, and `--credit information_gain:gain=bits` a metric of another name.

Deviations: payments are summed over the turns that follow before they are compared, with the same turn of all members,
so that going on keeps its price (as published: `credit=partial(credit.information_gain, centre="rewards")`). A turn of
gain 0 counts as a turn.
"""

from rl.methods.parts import credit, scale, score
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(score=(score.answer_gain,), credit=credit.information_gain, scale=scale.none)
