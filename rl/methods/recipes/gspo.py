"""GSPO (arXiv:2507.18071): GRPO with one length-normalised ratio for a whole trajectory, clipped within 4e-4 of 1.

Deviations: the ratio's mean runs over the sampled tokens of all turns, where the paper has one completion. Over long
episodes `ratio=ratio.turn` is the sharper choice.
"""

from functools import partial

from rl.methods.parts import ratio, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(ratio=ratio.sequence, surrogate=partial(surrogate.clip, low=3e-4, high=4e-4))
