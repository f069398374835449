"""JADE (arXiv:2601.21916): a planner and its executors on one set of weights, learned together by PPO turn by turn.

The roles of `--agent team`, or the seats of an environment of teammates, share the outcome, and each has its own
trajectory. A step of the planner lasts until it is asked again, whatever its executors write in between. Each turn has
a cost, so that the planner learns what its executors are good for; an invalid reply has another. As ablations,
`--strategy by_role:train=planner` or `train=executor` learns one side only.

Deviations: the coefficients of the costs are our choice. A role is charged for its own turns, where the paper charges
all roles for all calls. Advantages and ratios are of whole turns (`turn_ppo`). The workflow is the agent's or the
environment's: the paper's planner also chooses among kinds of executors, in series or in parallel.
"""

from rl.methods.parts import shape, strategy
from rl.methods.recipes import turn_ppo

recipe = turn_ppo.recipe.but(strategy=strategy.by_role, shape=(shape.turn_cost, shape.invalid_turns))
