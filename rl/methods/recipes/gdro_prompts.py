"""Prompt-GDRO (arXiv:2601.19280): GRPO that weighs tasks by how badly their bin of difficulty is doing.

Deviations: a bin's loss is its failure rate; the surrogate loss of the paper is 0 in every group before the policy
moves. Weights are those of the released code, 1 on average. A task goes down a bin too, which the released rule
prevents.
"""

from rl.methods.parts import reweigh
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(reweigh=(reweigh.hard_bins(),))
