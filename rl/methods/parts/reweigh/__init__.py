"""What becomes of advantages after they are assigned: `(groups, credit) -> credit`, any number of parts in order.

`groups` are all groups of the update; `credit` nests group > trajectory > (T,) as a credit part returns it, and is not
changed in place. A part multiplies, leaves out or adds, and never compares anew: what it leaves out has advantage 0 and
stays in the loss's denominator.
"""

from rl.methods.parts.reweigh.bins import hard_bins
from rl.methods.parts.reweigh.factors import (
    by_hint,
    calm,
    contrasting_pairs,
    most_spread,
    novel_successes,
    overconfident_errors,
    rare_successes,
    surprise,
    uncertain_turns,
    unforced,
)

__all__ = [
    "by_hint",
    "calm",
    "contrasting_pairs",
    "hard_bins",
    "most_spread",
    "novel_successes",
    "overconfident_errors",
    "rare_successes",
    "surprise",
    "uncertain_turns",
    "unforced",
]
