"""DART-GUI (arXiv:2509.23866): step-wise GRPO on the least certain turns, with effort that follows a task's difficulty.

All turns of a task are compared, each with its trajectory's reward, and the 80 % that were least certain are trained,
weighed for the sampler's mismatch (one forward pass more). A task that succeeds in more than 60 % of its episodes gets
fewer; an episode may be half as long again as the task's past successes; where all members failed, a recorded success
joins them.

Deviations: a turn's certainty is its mean negative log-probability as it was sampled, not the entropy over the
vocabulary. The recorded successes are the run's own, where the paper collects some beforehand, and at most 100 updates
old; the line by which episodes get fewer, the slack of 1.5 and the bounds of 4 and 50 turns are our choice. Every turn
is trained in the context of its whole episode, where the release cuts windows of five turns. Groups of successes only
stay in the update, with advantage 0. There is no term that imitates successes. The policy is not told of its limit.
"""

from functools import partial

from rl.methods.parts import allot, credit, reduce, reweigh, select, strategy, surrogate
from rl.methods.recipes import grpo

recipe = grpo.recipe.but(
    allot=allot.fewer_for_easy,
    strategy=strategy.bounded_replay(shortest=4),
    credit=partial(credit.outcome, unit="turn"),
    reweigh=(reweigh.uncertain_turns,),
    surrogate=partial(surrogate.dual_clip, low=0.2, high=0.28, cap=3.0),
    select=(partial(select.mismatch_tis, cap=1.0),),
    reduce=reduce.token_mean,
)
