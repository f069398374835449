"""CISPO anchored at the sampler (arXiv:2506.13585): CISPO whose weights are against the sampler's own record.

So it differs from `cispo` where a run decouples its ratios (`--decoupled`), which here adds no forward pass.

Deviations: as in `cispo`.
"""

from rl.methods.parts import ratio
from rl.methods.recipes import cispo

recipe = cispo.recipe.but(ratio=ratio.sampler)
