"""MIS (Liu et al. 2025): TIS that also rejects whole trajectories on which trainer and sampler differ too much.

A trajectory is rejected if the geometric mean of its ratios leaves 0.9 to 1.1, or if any one leaves 0.3 to 3.

Deviations: rejected trajectories stay in the loss's denominator and in their group's statistics. The first interval is
0.99 to 1.01 for samplers in full precision.
"""

from functools import partial

from rl.methods.parts import select
from rl.methods.recipes import tis

recipe = tis.recipe.but(
    select=(
        partial(select.mismatch_tis, cap=2.0),
        partial(select.mismatch_mask, level="sequence", over="mean", low=0.9, high=1.1),
        partial(select.mismatch_mask, level="sequence", over="max", low=0.3, high=3.0),
    )
)
