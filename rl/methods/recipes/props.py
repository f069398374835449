"""PROPS (arXiv:2311.08290): GRPO on groups that take their first decision in the policy's own proportions.

Deviations: the paper trains a second policy that samples what its data lack; for one decision among few tokens the
proportions are known, and quotas do the same. Later decisions are sampled freely.
"""

from rl.methods.parts import strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.quota)
