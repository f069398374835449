"""DOTS with rollout replay (arXiv:2506.05316): GRPO on tasks of middling difficulty, half of the groups from before.

Deviations: a task's success rate is predicted from its own last groups and the mean of all, where the paper compares
its text with those of 256 tasks that are played anew for that. The temperature is 0.05 and not 0.001, as such a
prediction is rough. Tasks are drawn one by one.
"""

from rl.methods.parts import sampler, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(sampler=sampler.near_target, strategy=strategy.replay_groups())
