"""Digi-Q (arXiv:2502.15760): imitates the best of a group's replies to each state, by a critic of whole replies.

The critic is that of `archer`. States are those that the environment tells apart.

Deviations: the replies are the policy's own of this update, where the paper draws 64 to each state of a fixed set of
logged episodes. The critic's heads are linear in the policy's hidden states, without a fine-tuning of these. The lesser
of twin estimates is taken, where the release takes the larger (`--score reply_advantage:greater=true`). A reply must be
better than the state by 0.01, where the paper has 0.05 or 0.1: the advantages of this critic are smaller.
"""

from functools import partial

from rl.methods.parts import credit, surrogate
from rl.methods.recipes import archer

recipe = archer.recipe.but(credit=partial(credit.best_replies, threshold=0.01), surrogate=surrogate.log_likelihood)
