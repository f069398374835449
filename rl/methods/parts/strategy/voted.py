"""Groups whose members label each other, for tasks whose answers nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from rl.methods.estimators.tasks import labels
from rl.methods.options import Positive, Share
from rl.methods.parts.strategy.forks import entropy_forks
from rl.methods.parts.strategy.independent import independent
from rl.methods.parts.strategy.replies.token_forks import token_forks
from rl.methods.votes import vote_function
from rl.records import Group, Ticket
from rl.rollout.runner import Runner

PLAYS: dict[str, Callable[[Runner, Ticket], Coroutine[Any, Any, list[Group]]]] = {
    "none": independent,
    "entropy": entropy_forks,
    "tokens": partial(token_forks, cuts=True),
}


async def majority_labels(
    runner: Runner,
    ticket: Ticket,
    *,
    voters: Positive = 1.0,
    least: Share = 0.0,
    forks: Literal["none", "entropy", "tokens"] = "none",
) -> list[Group]:
    """TTRL (arXiv:2504.16084): reward 1 for the answer that most members give, 0 for any other; no answer is read.

    `voters` times the group's size are played and vote; the first `ticket.size` of them are trained. An answer is what
    the environment's `vote` makes of the last reply, or its text. Where fewer than a share of `least` agree, nobody has
    a reward. With `forks="entropy"`, later voters begin as forks of earlier ones, see `entropy_forks`; with `"tokens"`
    they do within replies, and hopeless replies are cut off and have no vote, see `token_forks`. What the environment
    itself pays stays in the record, for the metrics, and the reward that is learned from takes its place.
    """
    size = max(ticket.size, round(voters * ticket.size))
    (group,) = await PLAYS[forks](runner, replace(ticket, size=size))
    env = runner.take()
    vote = vote_function(env)
    majority = labels.majority([vote(trajectory) for trajectory in group.trajectories])
    runner.put(env)
    rewards = majority.rewards if majority.ratio >= least else [0.0] * len(majority.rewards)
    members, others = group.trajectories[: ticket.size], group.trajectories[ticket.size :]
    return [Group(ticket, members, group.errored, rewards[: ticket.size], others)]
