"""DAPO (arXiv:2503.14476): GRPO with a higher upper clip, a token mean, refilled groups and a soft length limit.

Deviations: the length limit counts all sampled tokens of an episode, not one completion, and subtracts at most 1.
Groups are kept by their returns before shaping.
"""

from functools import partial

from rl.methods.parts import keep, reduce, shape, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    shape=(partial(shape.soft_overlong, budget=20480, cache=4096),),
    keep=keep.varied,
    surrogate=partial(surrogate.clip, low=0.2, high=0.28),
    reduce=reduce.token_mean,
)
