"""D3S (arXiv:2509.22115): GRPO on the half of trajectories whose advantages vary most, and on their telling tokens.

Of these trajectories' tokens, the two fifths with the largest product of |advantage| and entropy are trained. It costs
one forward pass more.

Deviations: the shares are constant over the run, where the paper's grow. Trajectories that are left out stay in the
loss's denominator; tokens do not.
"""

from functools import partial

from rl.methods.parts import reduce, reweigh, step
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    reweigh=(partial(reweigh.most_spread, share=0.5),),
    step=(partial(step.top_tokens, share=0.4),),
    reduce=reduce.token_mean,
)
