"""IGPO (arXiv:2510.14967): GRPO in which every turn is also paid by how much likelier it made the true answer.

The answer is the environment's `info["answer"]`, tried as the policy's next reply. `--score none` takes a metric `gain`
of the environment instead, and `--credit information_gain:gain=bits` another.

Deviations: payments are summed onward before they are compared, with the same turn of all members, so that going on
keeps its price (as published: `credit=partial(credit.information_gain, centre="rewards")`); a turn of gain 0 is a turn.
"""

from rl.methods.parts import credit, scale, score
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(score=(score.answer_gain,), credit=credit.information_gain, scale=scale.none)
