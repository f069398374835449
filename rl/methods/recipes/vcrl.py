"""VCRL (arXiv:2509.19803): GRPO on groups of high variance, with a bank of such tasks for the places of the others.

Deviations: tasks of the bank are played again, where it is open whether the paper replays their text. The bound on the
variance counts policy versions.
"""

from rl.methods.parts import keep, sampler
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(sampler=sampler.variance_bank(), keep=keep.worthwhile)
