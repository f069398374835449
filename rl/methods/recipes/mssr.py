"""MSSR (arXiv:2512.18215): one episode per task, against what the task has been worth so far; needs `--size 1`.

Tokens that were unlikely gain a little, so that the policy stays open.

Deviations: how much of the past is kept is constant, without the reference policy whose distance the authors follow
(`credit=credit.beta_value(target=0.01, released=True)`). No pass over all tasks comes first: a task that was never
played is worth 0.5.
"""

from rl.methods.parts import baseline, credit, reweigh
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    credit=credit.beta_value(),
    baseline=baseline.none,
    reweigh=(reweigh.surprise,),
)
