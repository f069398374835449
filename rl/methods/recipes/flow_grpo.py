"""Flow-GRPO (arXiv:2510.05592): the planner's turns have the outcome's advantage, equal weights; the rest is context.

With `--agent team`, or in the seat `planner` of an environment, only the planner is learned; `--strategy
by_role:train=NAME` learns another role. An agent without roles is learned whole.

Deviations: an episode counts once in its group however many turns it has (the release counts turns, which is
`credit=partial(credit.turn_returns, among="pooled")`). The other modules play with the weights of the planner as they
are now, where the paper has frozen ones. There is no KL term, whose reference policy would double the forward passes.
"""

from functools import partial

from rl.methods.parts import reduce, strategy, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=partial(strategy.by_role, train="planner"),
    surrogate=partial(surrogate.clip, low=0.2, high=0.3),
    reduce=reduce.turn_mean,
)
