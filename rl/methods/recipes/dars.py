"""DARS (arXiv:2508.13755): GRPO without a scale that plays more episodes of tasks that few of the first ones solved.

DARS-B, with breadth, is `--minibatches 1 --epochs 2` and as many `--groups` as fit.

Deviations: the sum over tokens is a mean over all tokens of the step. A group's limit is four times its size.
"""

from rl.methods.parts import keep, reduce, strategy
from rl.methods.recipes import dr_grpo

recipe = dr_grpo.recipe.but(strategy=strategy.more_for_hard, keep=keep.varied, reduce=reduce.token_mean)
