"""ArCHer (arXiv:2402.19446): actor and critic on two levels: a critic of whole replies teaches a policy of tokens.

The policy gradient of a reply's log-probability times the reply's advantage, without a ratio.

Deviations: on policy, where the paper learns from a replay of 100 000 replies: the critic learns from the turns of the
update, and the sampled reply stands for one drawn anew from the present policy; the critic's heads are linear in the
policy's own hidden states, where the paper has an encoder of its own; no update is spent on warming it up; no baseline
per token; an episode cut short by a limit is not bootstrapped.
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
