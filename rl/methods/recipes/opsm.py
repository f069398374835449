"""OPSM (DeepSeek-V3.2, arXiv:2512.02556): GRPO without the failures that the policy has moved away from since.

A failed trajectory is left out where its tokens have lost more than 0.0001 nats on average since they were sampled.

Deviations: there is no KL term. What is left out stays in the loss's denominator. The threshold is slime's.
"""

from rl.methods.parts import select
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(select=(select.off_policy_sequences,))
