"""HGPO (arXiv:2602.22817): GiGPO over nested groups of turns with the same state and ever more of the states before it.

Deviations: there is no KL term. As released, there is no term for the whole episode, the weight of a group whose turns
share `h` states of history is `(h + 2)^alpha`, and the standard deviation is the population's.
"""

from functools import partial

from rl.methods.parts import credit, scale
from rl.methods.recipes import gigpo

recipe = gigpo.recipe.but(credit=credit.hierarchical, scale=partial(scale.group_std, population=True))
