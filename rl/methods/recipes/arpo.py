"""ARPO (arXiv:2507.19849): GRPO on trees forked at uncertain replies; a shared turn has the mean of its advantages.

`--size` is the size of the whole group: half of it is played from the start.

Deviations: entropies are means per token, estimated from the log-probabilities of what was sampled, where the release
sums those of the ten likeliest tokens. A fork leaves before the reply that was uncertain, where the release forks after
it. A group is never padded with copies. A shared turn is trained once, where the release trains the soft form, which is
`credit=outcome`. Without forks (`strategy=independent`), members share turns only where they sample the same by chance.
"""

from functools import partial

from rl.methods.parts import credit, strategy
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    strategy=strategy.entropy_forks,
    credit=partial(credit.shared_prefix, once=True),
)
