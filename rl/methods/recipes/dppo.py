"""DPPO (arXiv:2602.04879): policy gradient without a clip, leaving out tokens whose probability moved by more than 0.2.

A ratio says little about the distributions: it moves far for a token that is unlikely either way.

Deviations: the anchor is the sampler's record. The regulariser of prime-rl, `penalty=(partial(square_log_ratio,
coef=0.001, anchor="sampler"),)`, is left out.
"""

from rl.methods.parts import ratio, reduce, select, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    ratio=ratio.sampler,
    surrogate=surrogate.linear,
    select=(select.divergence_mask,),
    reduce=reduce.token_mean,
)
