"""SeeUPO (arXiv:2602.06554): GSPO turn by turn, from the last to the first, each aware of how far later ones moved.

An update has as many phases as the longest episode has turns. Each takes optimiser steps of its own, and costs two
forward passes more than a plain update of those turns.

Deviations: a phase's loss is a mean over the trajectories that have the turn, where the release counts the others as
empty ones. There is no KL term (the paper's is `penalty=(partial(penalty.kl_k3, coef=0.002),)`). Because ratios begin
at 1 in every phase, `kl/sampler_trainer` is meaningless, and with `--lag` there is no correction for the policy that
sampled.
"""

from rl.methods.parts import phases, scale
from rl.methods.recipes import gspo

recipe = gspo.recipe.but(scale=scale.bounded_std, phases=phases.by_turn)
