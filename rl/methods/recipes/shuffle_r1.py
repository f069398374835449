"""Shuffle-R1 (arXiv:2508.05612): GRPO on the half of each group's pairs, best with worst, that differ most.

Deviations: pairs are chosen within the group; the paper then also draws them anew within the batch, by their
advantages. What is left out stays in the loss's denominator.
"""

from rl.methods.parts import reweigh
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(reweigh=(reweigh.contrasting_pairs,))
