"""AT-GRPO (arXiv:2510.11062): GRPO on single turns, each compared with the same turn of the same agent.

Every turn is paid by its own reward alone, as the method scores candidates of one shared state; where members choose
for themselves whether to go on, `turn_grpo` prices that and this does not.

Deviations: members play on their own, so that their prompts agree at the first turn only; a key holds the task once
(the release divides it away); a turn that only one member reached earns nothing.
"""

from functools import partial

from rl.methods.parts import credit
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(credit=partial(credit.turn_returns, gamma=0.0, among="agent"))
