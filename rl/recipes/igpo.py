"""IGPO (arXiv:2510.14967): GRPO in which every turn is also paid by how much likelier it made the true answer.

A turn's gain is its stream `gain`, or else the environment's metric of that name; `--credit information_gain:gain=bits`
reads another.

Deviations: payments are summed onward before they are compared, with the same turn of all members, so that going on
keeps its price (as published: `credit=partial(credit.information_gain, centre="rewards")`); a turn of gain 0 is a turn.
"""

from rl.parts import credit, scale
from rl.recipes import grpo

recipe = grpo.recipe.but(credit=credit.information_gain, scale=scale.none)
