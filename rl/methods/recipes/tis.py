"""TIS (Yao et al. 2025): GRPO, with truncated importance weights for the sampler's mismatch.

Ratios compare with the trainer's own log-probabilities before the update (one forward pass more), and each token's loss
is weighed by how much likelier the trainer found it than the sampler did, at most by 2.

Deviations: none. On a sampler that agrees with the trainer, as the engine `hf` does, it is GRPO.
"""

from functools import partial

from rl.methods.parts import select
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(select=(partial(select.mismatch_tis, cap=2.0),))
