"""One-Token Rollout (2025): imitates the oracle's episodes, each token as an episode of one token, by policy gradient.

A token that the policy would never say is not forced on it, so that less is forgotten than by cross-entropy. Use
`--size 1`: there is one episode for each task.

Deviations: the number of draws, 64, and the reward of other tokens, -0.1, are our choice; draws are made at the
temperature of the log-probabilities.
"""

from rl.methods.parts import baseline, ratio, reduce, scale, strategy, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.recorded,
    baseline=baseline.none,
    scale=scale.none,
    ratio=ratio.on_policy,
    surrogate=surrogate.one_token,
    reduce=reduce.token_mean,
)
