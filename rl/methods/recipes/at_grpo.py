"""AT-GRPO (arXiv:2510.11062): a tree of turns; candidates are compared with those of the same turn and agent.

At each turn of each agent, the members of a group reply to one prompt; the best reply goes on for all. Each turn is
judged by its own reward alone. Where members decide for themselves whether to go on, that decision has no price here;
`turn_grpo` gives it one. As ablations, `strategy=independent` plays whole episodes and compares turns with the same
index, whose prompts agree at the first turn only, and `turn_tree:compare=agent` or `compare=all` with `credit=outcome`
compares more.

Deviations: the release steps other copies of the environment than it keeps, and divides the task's index by the group's
size twice, which merges tasks; here a prompt, its rewards and the state that goes on belong together, as the paper
says. A candidate also earns what the seats in between make of it (`score=round`).
"""

from functools import partial

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.turn_tree, credit=partial(credit.turn_returns, gamma=0.0, among="agent"))
