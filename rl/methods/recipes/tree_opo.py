"""Tree-OPO (arXiv:2509.09284): members complete prefixes of every depth, each judged by what its prefix is worth.

Deviations: prefixes are those of the group's own first member, where the paper searches for them with a teacher. That
member is trained too, as the completion of an empty prefix. Advantages are the paper's heuristic, returns less half
their prefix's value (`credit=partial(credit.staged, ordered=True)` solves for them). The loss is GRPO's.
"""

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.chain_forks,
    credit=credit.staged,
)
