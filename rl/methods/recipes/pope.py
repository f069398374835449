"""POPE (arXiv:2601.18779): GRPO that also plays tasks which were never solved from part of a solution on.

It has an effect only where tasks come back: with many training tasks, `--train-tasks N` takes fewer.

Deviations: a task counts as hard after one group without success, where the paper takes 128 episodes before training;
the prefix that helps is found while training. The solution is the oracle's. Easy tasks stay in the mixture.
"""

from rl.methods.parts import strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.guided())
