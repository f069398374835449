"""SFPO (Slow-Fast Policy Optimization, 2025): GRPO that steps fast, then back in part, then once more.

An update costs four passes over its rows and no further episode.

Deviations: the rule that ends it reads the entropy of an update's first pass.
"""

from rl.methods.parts import passes
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(passes=passes.slow_fast())
