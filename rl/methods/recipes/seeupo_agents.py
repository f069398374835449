"""SeeUPO over agents (arXiv:2602.06554): a team is updated agent by agent, each aware of how far others have moved.

An update has as many phases as the team has agents: the seats of an environment, or the roles of an agent such as
`--agent team`. Each takes optimiser steps of its own, and costs two forward passes more than a plain update of those
rows. The order is `--phases by_agent:order=forward` or `names=executor+planner`.

Deviations: those of `seeupo`. The paper updates turns, as agents of a sequence; here all turns of an agent are one step
of that sequence. The guarantee is for a team that shares its reward; nothing is known for opponents.
"""

from rl.methods.parts import phases, strategy
from rl.methods.recipes import seeupo

recipe = seeupo.recipe.but(strategy=strategy.by_role, phases=phases.by_agent)
