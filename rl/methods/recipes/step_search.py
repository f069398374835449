"""StepSearch (arXiv:2505.15107): PPO in which each search is paid by what it found anew, less what it found again.

It needs an environment that reports both in `info["metrics"]`, as `gain` and `redundancy`. With `tools/Corpus-v0`,
`--env-arg rule=f1 --env-arg keys=0.618` is the paper's reward of the answer and of the searches' key words.

Deviations: the reward of the answer is the environment's. There is no KL in the reward.
"""

from rl.methods.parts import credit
from rl.methods.recipes import ppo

recipe = ppo.recipe.but(credit=credit.gae_with_gain)
