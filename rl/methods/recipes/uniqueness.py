"""Uniqueness-aware RL (arXiv:2601.08763): GRPO that divides a success's advantage by how many solved it the same way.

Deviations: ways are told apart by the tools that were called and the text without its numbers, where the paper asks a
judge (`reweigh=(partial(reweigh.rare_successes, key="state"),)` takes the states that were visited). Weights have mean
1.
"""

from rl.methods.parts import reweigh
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(reweigh=(reweigh.rare_successes,))
