"""Turn-PPO (arXiv:2512.17008): PPO whose action is a whole reply: one advantage, one value and one ratio per turn.

Deviations: the ratio is the mean over the reply's tokens, so that its clip does not tighten with length. Every token's
value is regressed on the turn's return, and the first token's value is the one that is used. An episode that a limit
cut short is not bootstrapped.
"""

from rl.methods.parts import credit, ratio
from rl.methods.recipes import ppo

recipe = ppo.recipe.but(credit=credit.turn_gae, ratio=ratio.turn)
