"""SAPO, swarm sampling (arXiv:2509.08721): GRPO on groups of its own and of other runs, which are shared as text.

`--strategy swarm:folder=DIR` names the folder that the runs share; without one it is GRPO. It costs a forward pass
more, for the log-probabilities of what another policy wrote.

Deviations: the environment plays the shared replies again, so that rewards are this run's. Ratios of all groups are
against the policy before the update. No text is rejected for being unlikely. The latest shared groups are taken, where
the paper draws any.
"""

from rl.methods.parts import score, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.swarm(), score=(score.proximal,))
