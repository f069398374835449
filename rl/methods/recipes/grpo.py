"""GRPO (arXiv:2402.03300): PPO's clip without a critic; rewards are standardised within their group.

Deviations: there is no KL term, whose reference policy would double the forward passes (the paper's is
`penalty=(partial(penalty.kl_k3, coef=0.04),)`). A group of one, or without variance, has advantage 0.
"""

from rl.methods.parts import baseline, credit, ratio, reduce, scale, surrogate
from rl.methods.recipe import Recipe

recipe = Recipe(
    credit=credit.outcome,
    baseline=baseline.group_mean,
    scale=scale.group_std,
    ratio=ratio.token,
    surrogate=surrogate.clip,
    reduce=reduce.sequence_mean,
)
