"""Trees that fork within replies, at tokens where the policy hesitates."""

from __future__ import annotations

from dataclasses import replace

from envs.types import Stop, assistant
from rl.methods.estimators.tasks import uncertainty
from rl.methods.estimators.tasks.uncertainty import Limits, Signals
from rl.methods.options import Count, Natural, Share
from rl.methods.parts.strategy.replies.drafts import (
    RecordingRunner,
    draft,
    expect_alternatives,
    forget_alternatives,
    play_starts,
    sound,
)
from rl.records import Completion, Fork, Group, Ticket, Trajectory, Turn
from rl.rollout.retry import group_of
from rl.rollout.runner import Runner
from rl.rollout.seat import Start


async def token_forks(
    runner: Runner,
    ticket: Ticket,
    *,
    initial: Share = 0.5,
    candidates: Count = 5,
    most: Count = 4,
    depth: Natural = 4,
    cuts: bool = False,
) -> list[Group]:
    """ECHO's tree (2026): forks within replies, where the policy hesitates over its likeliest tokens.

    An `initial` share of the group is played from the start. Each of these members may have one fork point: the first
    token, after `depth` tokens of its reply, where the entropy of the `candidates` likeliest tokens is in the highest
    tenth of these members' and has risen, and the policy was less sure over the last tokens than at their median. Up to
    `most` forks begin there with the likeliest tokens but the one that was sampled, the more, the higher the entropy;
    they go on by themselves. Members that the group still has room for are played from the start.

    With `cuts`, a reply is cut off where the policy was less sure over four tokens than almost anywhere, where that
    falls on and on, or where entropy rises on and on. It ends its episode there, without an answer. It is cut after it
    was played, as in the authors' release, so that it costs its tokens.
    """
    recording = RecordingRunner(runner, candidates)
    bases = range(max(1, round(initial * ticket.size)))
    attempts = await play_starts(recording, ticket, {member: Start() for member in bases})
    members = {member: one for member in bases if (one := sound(attempts[member])) is not None}
    for one in members.values():
        expect_alternatives(one, "token_forks")
    replies = [signals for one in members.values() for turn in one.turns if (signals := _signals(turn.completion))]
    limits = Limits.of_replies(replies, depth=depth)
    starts: dict[int, Start] = {}
    for member, trajectory in members.items():
        for start in _forks(runner, member, trajectory, limits, most)[: ticket.size - len(bases) - len(starts)]:
            starts[len(bases) + len(starts)] = start
    starts = {member: starts.get(member, Start()) for member in range(len(bases), ticket.size)}
    attempts |= await play_starts(recording, ticket, starts)
    if cuts:
        for trajectory in filter(None, map(sound, attempts.values())):
            _cut(trajectory, limits)
    forget_alternatives(attempts)
    return [group_of(ticket, [attempts[member] for member in sorted(attempts)])]


def _signals(reply: Completion) -> Signals | None:
    """A reply's signals; None where the sampler has not recorded its likeliest tokens."""
    if not reply.alternatives or not all(reply.alternatives):
        return None
    return uncertainty.signals([[logprob for _, logprob in row] for row in reply.alternatives])


def _forks(runner: Runner, member: int, trajectory: Trajectory, limits: Limits, most: int) -> list[Start]:
    """How the forks of a member begin, at its first fork point."""
    for k, turn in enumerate(trajectory.turns):
        reply = turn.completion
        signals = _signals(reply)
        point = uncertainty.branch_point(signals, limits, most=most) if signals else None
        if point is not None:
            others = [choice for choice in reply.alternatives[point.position] if choice[0] != reply.ids[point.position]]
            return [
                Start(
                    trajectory.turns[:k],
                    Fork(member, k) if k else None,
                    turn.context,
                    reply=draft(runner, reply, point.position, choice),
                )
                for choice in others[: point.width]
            ]
    return []


def _cut(trajectory: Trajectory, limits: Limits) -> None:
    """End a trajectory at the first cut point of its replies, if it has one before a reply's last token."""
    for k, turn in enumerate(trajectory.turns):
        signals = _signals(turn.completion)
        point = uncertainty.cut_point(signals, limits) if signals else None
        if point is not None and point[0] + 1 < len(turn.completion.ids):
            rest = sum(len(later.completion.ids) for later in trajectory.turns[k:])
            trajectory.num_side_sampled += rest - point[0] - 1
            trajectory.turns[k:] = [_cut_turn(turn, point[0] + 1)]
            trajectory.stop, trajectory.success, trajectory.final = Stop.TOKEN_LIMIT, False, ()
            return


def _cut_turn(turn: Turn, length: int) -> Turn:
    """A turn whose reply ends after `length` tokens, without an answer."""
    reply = turn.completion
    cut = Completion(
        reply.ids[:length], reply.logprobs[:length], reply.model_logprobs[:length], reply.versions[:length], "length"
    )
    return replace(turn, completion=cut, reply=assistant(""), reward=0.0, rewards={}, metrics={}, valid=False)
