"""AT-GRPO (arXiv:2510.11062): GRPO on single turns, each compared with the same turn of the same agent.

Each turn is judged by its own reward alone, because the method compares candidates for one shared state. Where members
decide for themselves whether to go on, that decision has no price here; `turn_grpo` gives it one.

Deviations: members play independently, so that their prompts agree at the first turn only. Tasks are never merged into
one comparison, as they are in the release, which divides the task's index by the group's size twice. A turn that only
one member reached has advantage 0.
"""

from functools import partial

from rl.methods.parts import credit
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(credit=partial(credit.turn_returns, gamma=0.0, among="agent"))
