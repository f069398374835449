"""XRPO's sharpening (arXiv:2510.06672): GRPO with a bonus for successes that were less likely than their group.

Deviations: of the method only this part: no rollouts are allocated by what they would tell, and no solved examples are
put into the prompt.
"""

from rl.methods.parts import reweigh
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(reweigh=(reweigh.novel_successes,))
