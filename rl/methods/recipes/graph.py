"""Graph values (Turnwise, 2026): a turn earns what the state that it led to is worth to all members of the group.

Turns are grouped by `Turn.state` and their number (`rl/methods/parts/credit/graph.py`). An outcome that luck decided
after a turn is averaged over all who came by, which no baseline can do, and a turn is compared with what others earned
from the same state. Without shared states it is RLOO with GRPO's loss.

It gains nothing where states are met once, and points elsewhere where the state forgets what decides; hence
`lam=0.5` unless the environment declares its state Markov. Where every turn must be right it needs `weigh=true`;
`gate=true,adapt=true` suits outcomes that are settled early.

Deviations: none from a paper, for there is none. Rewards keep their unit (GRPO's is `scale=scale.group_std`).
"""

from rl.methods.parts import credit, scale
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(credit=credit.graph_values, scale=scale.none)
