"""M-GRPO (arXiv:2511.13288): a main agent and its sub-agents in groups of their own, however often these are called.

An episode gives one trajectory of the main agent and `calls` of each sub-agent: too many calls are thinned out, too few
are repeated. Each call is compared with all calls of the group, and earns the outcome of its episode. `--agent stack`
has such an agent and its subtasks, and `--agent team` one whose executor is called by a planner.

Deviations: one set of weights plays all agents, where the paper trains one for each, on servers of their own; so in the
joint loss the calls of an episode weigh `calls` times as much as its main agent (`reduce=group_mean` evens that).
A call earns the outcome and what the environment pays on the way; there is no judge of its report (the paper adds one,
and a reward for the form, which is `shape=(shape.invalid_turns,)`). The number of calls is our choice. There is no
KL term.
"""

from rl.methods.parts import strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(strategy=strategy.main_and_calls)
