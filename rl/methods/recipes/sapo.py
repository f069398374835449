"""SAPO (arXiv:2511.20347): GRPO whose clip is a sigmoid gate, tighter for negative advantages.

Deviations: none. `--decoupled` adds no weight for the sampler's mismatch.
"""

from rl.methods.parts import surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(surrogate=surrogate.soft_gate)
