"""StepSearch (arXiv:2505.15107): PPO in which each search is paid by what it found anew, less what it found again.

It needs an environment that reports both in `info["metrics"]`, as `gain` and `redundancy`.

Deviations: the reward of the answer is the environment's, without a bonus for the searches' key words. There is no KL
in the reward.
"""

from rl.methods.parts import credit
from rl.methods.recipes import ppo

recipe = ppo.recipe.but(credit=credit.gae_with_gain)
