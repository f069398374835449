"""ACE (arXiv:2602.21420): GRPO that corrects errors the more, the likelier training has made them.

It costs a reference policy.

Deviations: the shift of log-probability is per token, since the sum over a long trajectory would multiply its error by
dozens (`confidence="sum"`), and the factor is at most 6.
"""

from rl.methods.parts import reweigh
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(reweigh=(reweigh.overconfident_errors,))
