"""V_0.5 (arXiv:2603.10848): few episodes per task, whose mean is drawn towards what was expected of the task.

Deviations: what is expected is the mean of the task's last groups, blended with that of all tasks, where the paper has
a model that predicts it from other tasks' results. Groups have one size, where the paper stops when another episode
would tell little. A group whose members agree has a gradient, as in the paper.
"""

from rl.methods.parts import baseline, credit, scale
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    credit=credit.fused_prior(),
    baseline=baseline.none,
    scale=scale.none,
)
