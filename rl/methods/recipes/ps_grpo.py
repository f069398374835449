"""PS-GRPO (2025): GRPO on groups that read a task in different words, and are paid for answering alike.

Deviations: wordings are templates around the task, ours or yours (`--strategy paraphrased:file=FILE`), where the paper
has paraphrases by a model. Agreement is added to what the environment pays.
"""

from functools import partial

from rl.methods.parts import scale, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=partial(strategy.paraphrased, wordings=2), scale=partial(scale.group_std, population=True)
)
