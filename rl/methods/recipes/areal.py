"""AReaL (arXiv:2505.24298): GRPO from stale samples, with a guess of the policy before the update.

The guess costs no forward pass.

Ratios compare with the guess, which lies between the sampler's record and the current policy by how far the sampler was
behind, and each token is weighed by how far the guess is from the record. With `--lag 0` it is GRPO.

Deviations: there is no critic. `decoupled_ppo` computes what is guessed here.
"""

from rl.methods.parts import ratio, reduce, select
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(ratio=ratio.interpolated, select=(select.interpolated_tis,), reduce=reduce.token_mean)
