"""V_0.5 (arXiv:2603.10848): few episodes per task, whose mean is drawn towards what was expected of the task.

Deviations: what is expected is the mean of the task's last groups, blended with that of all tasks, where the paper has
a model that predicts it from other tasks' results. A group plays four episodes, and further ones up to `--size` while
they would tell much, as the paper's do up to 16. A group whose members agree has a gradient, as in the paper.
"""

from rl.methods.parts import baseline, credit, scale, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.until_settled(),
    credit=credit.fused_prior(),
    baseline=baseline.none,
    scale=scale.none,
)
