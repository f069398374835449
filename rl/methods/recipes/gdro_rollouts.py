"""Rollout-GDRO (arXiv:2601.19280): GRPO whose bins of difficulty play for the number of episodes of their tasks.

Deviations: a bin's loss is its failure rate. It enters the scores with the sign of the released code, so that hard bins
gain episodes. The numbers to choose from follow `--size`: half, three quarters, one, one and a half, and twice of it.
"""

from rl.methods.parts import allot
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(allot=allot.arms())
