"""Groups whose first decision is taken as often as the policy would take it, and not as often as chance has it."""

from __future__ import annotations

import math

from rl.methods.estimators.tasks import allocation
from rl.methods.options import Count, Share
from rl.methods.parts.strategy.replies.drafts import (
    RecordingRunner,
    draft,
    expect_alternatives,
    forget_alternatives,
    play_starts,
    sound,
)
from rl.records import Group, Ticket, Trajectory
from rl.rollout.retry import group_of
from rl.rollout.runner import Runner
from rl.rollout.seat import Start
from rl.seeds import generator


async def quota(runner: Runner, ticket: Ticket, *, options: Count = 8, certain: Share = 0.9) -> list[Group]:
    """PROPS for a decision among few (arXiv:2311.08290): members take it in the policy's own proportions.

    The first member plays freely. Its first decision is the first token of its first reply where no token has a
    probability of `certain` or more. Each further member begins with the same tokens up to there and then with one of
    the `options` likeliest, drawn by how far the members so far fall short of the policy's proportions; from there it
    goes on by itself. What is likely beyond these is one option more, whose members play freely. Tokens have the
    policy's own log-probabilities, and are learned from as if all had been sampled from it. The metric `sampling_error`
    of the first member is the sum of the differences between the policy's proportions and the group's.
    """
    recording = RecordingRunner(runner, options)
    attempts = await play_starts(recording, ticket, {0: Start()})
    first = sound(attempts[0])
    if first is not None:
        expect_alternatives(first, "quota")
    position = _decision(first, certain) if first else None
    starts = {member: Start() for member in range(1, ticket.size)}
    if first is not None and position is not None:
        reply = first.turns[0].completion
        choices = reply.alternatives[position]
        chances = [math.exp(logprob) for _, logprob in choices]
        chances.append(max(0.0, 1.0 - sum(chances)))
        counts = [float(token == reply.ids[position]) for token, _ in choices]
        counts.append(1.0 - sum(counts))
        for member in starts:
            deficits = allocation.quota(chances, counts)
            place = int(generator(ticket.seed, "quota", member).choice(len(deficits), p=deficits))
            counts[place] += 1
            if place < len(choices):
                starts[member] = Start(reply=draft(runner, reply, position, choices[place]))
        error = allocation.sampling_error(chances, counts)
        first.turns[0].metrics = {**first.turns[0].metrics, "sampling_error": error}
    attempts |= await play_starts(runner, ticket, starts)
    forget_alternatives(attempts)
    return [group_of(ticket, [attempts[member] for member in sorted(attempts)])]


def _decision(trajectory: Trajectory, certain: float) -> int | None:
    """The position of the first token in a trajectory's first reply that was not certain before it was sampled."""
    alternatives = trajectory.turns[0].completion.alternatives
    return next((t for t, row in enumerate(alternatives) if row and math.exp(row[0][1]) < certain), None)
