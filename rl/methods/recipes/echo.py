"""ECHO (Entropy-Confidence Hybrid Optimization, 2026): TTRL in which uncertainty weighs more and clips less.

It costs one forward pass more.

Deviations: confidence is the probability of the sampled token. Forks and cuts of replies are left out.
"""

from rl.methods.parts import step, surrogate
from rl.methods.recipes import ttrl

recipe = ttrl.recipe.but(step=(step.hybrid_shaping,), surrogate=surrogate.adaptive_clip)
