"""ARPO (arXiv:2507.19849): GRPO in which a turn that several members share earns the mean of their advantages.

Deviations: members are played from the start and share what they happen to have in common; the entropy bonus for forks
after a tool's reply is a matter of sampling. The release trains the soft form, which is GRPO.
"""

from rl.parts import credit
from rl.recipes import grpo

recipe = grpo.recipe.but(credit=credit.shared_prefix)
