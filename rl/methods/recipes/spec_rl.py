"""SPEC-RL (arXiv:2509.23232): GRPO whose replies begin with those of the task's last visit, as far as they still hold.

It has an effect only where tasks come back, with an engine that verifies drafts.

Deviations: the paper keeps an old token with probability `min(1, 1.65 p / q)` and goes on from the policy, which
favours what was said before. Here a token is kept if its random number draws it again, so that tokens have the policy's
own distribution (`--strategy recalled:rule=residual` does it by speculative sampling, `rule=lenient` as the paper). A
reply's random numbers serve three visits more at most.
"""

from rl.methods.parts import strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.recalled())
