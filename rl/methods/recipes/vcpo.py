"""VCPO (arXiv:2602.17616): policy gradient for stale data: a baseline of least variance, and steps by effective size.

Each trajectory is weighed by its ratio of trainer against sampler, at most 8. The baseline weighs returns by the
squared gradient, which costs a backward pass more; the learning rate falls where few trajectories dominate.

Deviations: the gradient in the baseline is without the importance weight, as in the paper; the release counts it twice.
The step by effective size has base 1, where the authors take 0.55 for several turns.
"""

from functools import partial

from rl.methods.parts import baseline, credit, reduce, select, step
from rl.methods.recipes import reinforce

recipe = reinforce.recipe.but(
    credit=credit.minimum_variance,
    baseline=baseline.none,
    step=(step.effective_size,),
    select=(partial(select.mismatch_tis, cap=8.0, level="sequence"),),
    reduce=reduce.sequence_mean,
)
