"""PPO (arXiv:1707.06347): clipped ratios, with advantages from a critic that is trained beside the policy.

Deviations: discount and lambda are 1, as is usual for language models. The critic is a head on the policy's own body.
An episode that a limit cut short is not bootstrapped.
"""

from rl.methods.parts import credit, penalty, ratio, reduce, score, surrogate
from rl.methods.recipe import Recipe

recipe = Recipe(
    score=(score.value,),
    credit=credit.gae,
    ratio=ratio.token,
    surrogate=surrogate.clip,
    penalty=(penalty.value_error,),
    reduce=reduce.token_mean,
)
