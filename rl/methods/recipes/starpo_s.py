"""StarPO-S (arXiv:2504.20073): GRPO on the quarter of groups whose outcomes vary most, with a higher upper clip.

Deviations: groups that are left out stay in the loss's denominator, and the entropy bonus applies to them too. Each
invalid reply costs 0.1 (RAGEN's format penalty) before rewards are compared. The paper's other form has a critic.
"""

from functools import partial

from rl.methods.parts import credit, penalty, reduce, shape, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    shape=(partial(shape.invalid_turns, penalty=0.1),),
    credit=partial(credit.most_varied, ratio=0.25),
    surrogate=partial(surrogate.clip, low=0.2, high=0.28),
    penalty=(partial(penalty.entropy_bonus, coef=0.001),),
    reduce=reduce.token_mean,
)
