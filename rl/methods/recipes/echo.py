"""ECHO (Entropy-Confidence Hybrid Optimization, 2026): TTRL on trees that fork within replies; uncertainty weighs more.

A fork begins where the policy hesitates over its likeliest tokens, hopeless replies are cut off, uncertain tokens weigh
more, and a sure end narrows the clip. It costs one forward pass more.

Deviations: limits are quantiles of the group's own replies, where the release has numbers that nothing reaches. In the
update, confidence is the probability of the sampled token.
"""

from functools import partial

from rl.methods.parts import step, strategy, surrogate
from rl.methods.recipes import ttrl

recipe = ttrl.recipe.but(
    strategy=partial(strategy.majority_labels, least=0.25, forks="tokens"),
    step=(step.hybrid_shaping,),
    surrogate=surrogate.adaptive_clip,
)
