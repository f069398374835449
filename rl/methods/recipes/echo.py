"""ECHO (Entropy-Confidence Hybrid Optimization, 2026): TTRL whose uncertain tokens weigh more, with a clip that a sure end narrows.

It costs one forward pass more.

Deviations: confidence is the probability of the sampled token. Forks and cuts of replies are left out.
"""

from rl.methods.parts import step, surrogate
from rl.methods.recipes import ttrl

recipe = ttrl.recipe.but(step=(step.hybrid_shaping,), surrogate=surrogate.adaptive_clip)
