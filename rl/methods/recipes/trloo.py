"""TRLOO (arXiv:2602.05885): turn-wise returns against the mean of the other members; no turn's gradient shrinks.

If the mean contained the turn itself, a turn that `n` members reached would keep `1 - 1/n` of its gradient: the fewer
reached it, the less.

Deviations: members whose episode is over are among the others (see `turn_grpo`), which also leaves no late turn alone.
The loss sums over the tokens of a trajectory, not of a turn. Trajectories are not rejected by their sampler's ratio.
"""

from functools import partial

from rl.methods.parts import baseline, reduce, scale, surrogate
from rl.methods.recipes import turn_grpo

recipe = turn_grpo.recipe.but(
    baseline=baseline.leave_one_out,
    scale=scale.none,
    surrogate=partial(surrogate.clip, low=0.2, high=0.28),
    reduce=reduce.sequence_sum,
)
