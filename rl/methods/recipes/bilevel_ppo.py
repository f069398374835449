"""Bi-level GAE (arXiv:2504.20073): PPO with advantages over turns first, and then over the tokens within each.

Deviations: a turn ends where its reply ends, where the release takes every reward that is not 0 for an end. An episode
that a limit cut short is not bootstrapped.
"""

from rl.methods.parts import credit
from rl.methods.recipes import ppo

recipe = ppo.recipe.but(credit=credit.bilevel_gae)
