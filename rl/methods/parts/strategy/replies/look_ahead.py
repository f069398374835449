"""Trees that fork within replies where two tokens are as likely, if what follows them differs."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from rl.methods.estimators.similarity import edit_distance
from rl.methods.options import Count, Share
from rl.methods.parts.strategy.independent import independent
from rl.methods.parts.strategy.replies.ahead import prompt_of, sample_ahead
from rl.methods.parts.strategy.replies.drafts import (
    Attempts,
    RecordingRunner,
    draft,
    expect_alternatives,
    forget_alternatives,
    play_starts,
    sound,
)
from rl.records import Completion, Fork, Group, Ticket, Trajectory
from rl.rollout.retry import group_of
from rl.rollout.runner import Runner
from rl.rollout.seat import Start
from rl.seeds import derive, generator

CHOICES = 4  # likeliest tokens that are recorded: of tokens above a chance of 0.25 there are no more than three


class _Place(NamedTuple):
    """Where a member could have gone on otherwise: turn, token, and the other token with its log-probability."""

    turn: int
    token: int
    choice: tuple[int, float]


@dataclass
class _Tree:
    """The members of a group so far."""

    attempts: dict[int, Attempts]
    choices: dict[int, list[_Place]]  # tokens of each member that were chosen, not sampled, in order
    side_tokens: dict[int, int] = field(default_factory=dict)  # of branches of each member that were given up
    num_looks: int = 0


async def look_ahead(
    runner: Runner,
    ticket: Ticket,
    *,
    chance: Share = 0.25,
    margin: Share = 0.15,
    distance: Share = 0.4,
    tokens: Count = 20,
    every: Count = 100,
    least: Share = 0.25,
) -> list[Group]:
    """LATR (arXiv:2510.24302): a member forks where another token is about as likely, if that leads elsewhere.

    Tokens of more than `chance`, less than `margin` below the likeliest one, are alternatives where there are two of
    them at least. A fork begins with another member's tokens and an alternative to the one that was sampled, and is
    sampled `tokens` further. Where that is less than `distance` from what the member said from there on (in insertions,
    deletions and replacements, as a share of the longer one), the fork is given up; otherwise it goes on by itself, and
    other members fork from it. Forks are tried from a member's first token to its last until the group is full; members
    that are missing in the end are played from the start. The alternative itself was not sampled: the stream `forced`
    is 1 on it, for `--reweigh unforced`.

    A share of the groups is played so: all of them at first, and a quarter less after every `every` policy versions,
    down to `least`.
    """
    share = max(least, 1 - 0.25 * (ticket.version // every))
    if generator(ticket.seed, "look ahead").random() >= share:
        return await independent(runner, ticket)
    recording = RecordingRunner(runner, CHOICES)
    tree = _Tree(await play_starts(recording, ticket, {0: Start()}), {0: []})
    queue = [0]
    while queue and len(tree.attempts) < ticket.size:
        member = queue.pop(0)
        trajectory = sound(tree.attempts[member])
        if trajectory is None or any(turn.images for turn in trajectory.turns):
            continue
        expect_alternatives(trajectory, "look_ahead")
        places = _places(trajectory, tree.choices[member][-1:], chance, margin)
        starts = await _look(recording, ticket, tree, member, places, distance, tokens)
        attempts = await play_starts(recording, ticket, {number: start for number, (_, start) in starts.items()})
        for number, (place, _) in starts.items():
            for one in attempts[number]:
                one.num_reused = place.token + 1
        tree.attempts |= attempts
        queue += starts
    missing = {member: Start() for member in range(ticket.size) if member not in tree.attempts}
    tree.attempts |= await play_starts(recording, ticket, missing)
    forget_alternatives(tree.attempts)
    _mark(tree)
    return [group_of(ticket, [tree.attempts[member] for member in sorted(tree.attempts)])]


def _places(trajectory: Trajectory, after: list[_Place], chance: float, margin: float) -> list[_Place]:
    """Where a member could fork, behind the token that it was forked off with."""
    begin = (after[0].turn, after[0].token + 1) if after else (0, 0)
    places = []
    for k, turn in enumerate(trajectory.turns):
        for t, row in enumerate(turn.completion.alternatives):
            if (k, t) < begin or not row:
                continue
            best = math.exp(row[0][1])
            likely = [one for one in row if (p := math.exp(one[1])) > chance and best - p < margin]
            others = [one for one in likely if one[0] != turn.completion.ids[t]]
            if len(likely) > 1:
                places += [_Place(k, t, one) for one in others]
    return places


async def _look(
    runner: Runner,
    ticket: Ticket,
    tree: _Tree,
    member: int,
    places: list[_Place],
    distance: float,
    tokens: int,
) -> dict[int, tuple[_Place, Start]]:
    """Try places until the group is full, as many at a time as it has room for; return the starts of new members."""
    trajectory = sound(tree.attempts[member])
    assert trajectory is not None
    starts: dict[int, tuple[_Place, Start]] = {}
    tree.side_tokens[member] = 0
    while places and (room := ticket.size - len(tree.attempts) - len(starts)):
        now, places = places[:room], places[room:]
        calls = []
        for place in now:
            beginning = draft(runner, trajectory.turns[place.turn].completion, place.token, place.choice)
            session = ticket.session(member, f"ahead.{tree.num_looks}")
            seed = derive(ticket.seed, "ahead", tree.num_looks)
            prompt = prompt_of(trajectory.turns, place.turn)
            calls.append(sample_ahead(runner, ticket, session, prompt, beginning, seed, tokens))
            tree.num_looks += 1
        for place, reply in zip(now, await asyncio.gather(*calls), strict=True):
            if reply is not None and _distance(trajectory, place, reply, tokens) >= distance:
                number = len(tree.attempts) + len(starts)
                turn = trajectory.turns[place.turn]
                fork = Fork(member, place.turn) if place.turn else None
                starts[number] = place, Start(trajectory.turns[: place.turn], fork, turn.context, reply=reply)
                tree.choices[number] = [one for one in tree.choices[member] if one[:2] < place[:2]] + [place]
            elif reply is not None:
                tree.side_tokens[member] += len(reply.ids) - place.token - 1
    return starts


def _distance(trajectory: Trajectory, place: _Place, reply: Completion, tokens: int) -> float:
    end = place.token + 1 + tokens
    return edit_distance(trajectory.turns[place.turn].completion.ids[place.token : end], reply.ids[place.token : end])


def _mark(tree: _Tree) -> None:
    """Fill the stream `forced`, and count the tokens of branches that were given up."""
    for member, attempts in tree.attempts.items():
        for trajectory in attempts:
            trajectory.num_side_sampled = tree.side_tokens.get(member, 0) if trajectory is attempts[-1] else 0
            for k, turn in enumerate(trajectory.turns):
                marks = {place.token for place in tree.choices.get(member, ()) if place.turn == k}
                turn.streams["forced"] = tuple(float(t in marks) for t in range(len(turn.completion.ids)))
