"""PA-RL (arXiv:2412.06685): imitates the better replies to each state, weighed as a policy that a critic has improved.

Any policy that has a likelihood can be trained so. The critic is that of `archer`, and states are those that the
environment tells apart, as for `digiq`.

Deviations: candidates are the group's own replies to the state, where the paper samples 32 anew; text has no gradient
of the critic with respect to it, so that no candidate is changed. The critic's target is the reply that was sampled,
where the paper takes the improved one. The temperature is ours.
"""

from rl.methods.parts import credit
from rl.methods.recipes import digiq

recipe = digiq.recipe.but(credit=credit.improved_policy)
