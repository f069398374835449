"""REINFORCE++ (arXiv:2501.03262): PPO whose critic is replaced by standardising returns over the whole batch.

Deviations: there is no KL in the reward, whose reference policy would double the forward passes (the paper's is
`credit=partial(credit.reward_to_go, kl=0.01)`). Rewards cross observations to earlier turns.
"""

from rl.methods.parts import credit
from rl.methods.recipes import ppo

recipe = ppo.recipe.but(score=(), credit=credit.reward_to_go, penalty=())
