"""GiGPO (arXiv:2505.10978): GRPO, plus the advantage of each turn among all turns that began in the same state.

Turns are grouped by `Turn.state`, the environment's `info["state"]`, in `rl/methods/parts/credit/state.py`.

Deviations: rewards keep their unit on both levels (the paper's other form is `scale=scale.group_std`). An episode
counts once in its group however many turns it has. There is no KL term. Invalid replies cost what the environment says
(`shape=(shape.invalid_turns,)` subtracts 0.1 more for each). The release's form is
`credit=partial(credit.anchored, unit="turn", singleton="raw")`.
"""

from rl.methods.parts import credit, scale
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(credit=credit.anchored, scale=scale.none)
