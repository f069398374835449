"""Tree-GRPO (arXiv:2509.21240): members forked at random turns, compared within their tree and within the group.

`--size` is the size of the whole group: two members are played from the start, the others are forks of theirs.

Deviations: there are as many trees and rounds of forks as the group's size allows, where the paper's size follows from
them. A tree that has no turn to fork after is begun anew. Each comparison is scaled by the deviation in its own tree or
group.
"""

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.random_forks,
    credit=credit.within_trees,
)
