"""SCOPE (Recycling Failures, 2025): GRPO whose failures go on from a corrected first error.

A failure that was right up to some turn keeps what came before, an oracle plays that turn, and the policy goes on. It
needs an environment with an oracle, and episodes of several turns.

Deviations: whether a turn is wrong is what the oracle can still make of the state, or a metric of the environment's
(`--strategy recycled:metric=NAME`), where the paper has a learnt judge of steps. The oracle writes the correction; it
is context and not trained, where the paper weighs its tokens.
"""

from rl.methods.parts import strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.recycled)
