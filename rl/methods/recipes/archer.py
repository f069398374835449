"""ArCHer (arXiv:2402.19446): a critic of whole replies teaches a policy of tokens, as critic and actor on two levels.

The loss is the policy gradient: a reply's log-probability times the reply's advantage, without a ratio.

Deviations: it is on policy, where the paper learns from a replay of 100 000 replies: the critic learns from the turns
of the update, and the sampled reply takes the place of one drawn anew from the current policy. The critic's heads are
linear in the policy's own hidden states, where the paper has an encoder of its own. No update is spent on warming it
up, and there is no baseline per token. An episode that a limit cut short is not bootstrapped.
"""

from rl.methods.parts import credit, ratio, reduce, score, surrogate
from rl.methods.recipe import Recipe

recipe = Recipe(
    score=(score.reply_advantage(),),
    credit=credit.scored,
    ratio=ratio.on_policy,
    surrogate=surrogate.linear,
    reduce=reduce.turn_sum,
)
