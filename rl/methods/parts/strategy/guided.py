"""Episodes that begin with part of a solution, for tasks that are too hard without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import gymnasium

from envs.types import Message, Messages, text
from rl.methods.estimators.tasks import hints
from rl.methods.options import Count, NonNegative, Share
from rl.methods.parts.strategy.expert import ExpertEnv, Step, WrappingRunner, record_expert
from rl.methods.parts.strategy.independent import play_members
from rl.records import Group, Ticket, Trajectory
from rl.rollout.faults import Match
from rl.rollout.retry import groups_by_seat
from rl.rollout.runner import Runner
from rl.seeds import generator

CHECKPOINTS = 4  # a prefix is 1, 2 or 3 quarters of the solution
OPENING = "A solution begins like this. Go on from there."


async def hinted(
    runner: Runner, ticket: Ticket, *, least: Share = 0.0, most: Share = 0.8, noise: NonNegative = 0.05
) -> list[Group]:
    """ADHint: half of the group plays unaided, and the other half with as much of a solution as these found it hard.

    The solution is that of the environment's oracle on the same ticket. The share of its turns that is given grows from
    `least` to `most` with the failure rate of the first half, with up to `noise` more or less, and ends with a turn;
    where there is one turn, with a word. All members are one group. If the first half did not fail, there is no
    solution, or its share is below one turn, the second half plays unaided too.
    """
    half = max(1, ticket.size // 2)
    attempts = await play_members(runner, ticket, range(half))
    members = [trajectory for group in groups_by_seat(runner, ticket, attempts) for trajectory in group.trajectories]
    failures = 1 - sum(member.success for member in members) / max(len(members), 1)
    share = hints.hint_share(failures, least=least, most=most) if members else 0.0
    share += float(generator(ticket.seed, "hint").uniform(-noise, noise)) if share else 0.0
    rest = range(half, ticket.size)
    aided_attempts = await _play_guided(runner, ticket, rest, share) if share > 0 else None
    attempts += aided_attempts if aided_attempts is not None else await play_members(runner, ticket, rest)
    return groups_by_seat(runner, ticket, attempts)


@dataclass
class guided:
    """POPE (arXiv:2601.18779): a task that was never solved unaided is played with the beginning of a solution too.

    The solution is that of the environment's oracle on the same ticket; a prefix of it is one, two or three quarters of
    its turns, at least one turn, or of its words where there is one turn, without the answer. A task whose last `after`
    groups had no success is played with a prefix at a `share` of its visits: the shortest with which a group ever
    succeeded, else the one that was tried least often, shorter ones first. A guided group is one of its own. The prefix
    is context, never trained. Without a solution the group plays unaided.

    Attributes:
        after: Groups without any success before a task counts as too hard.
        share: Share of the visits of such a task that are guided.

    """

    after: Count = 1
    share: Share = 0.5
    _visits: dict[int, list[tuple[int, int, bool]]] = field(default_factory=dict, init=False, compare=False)

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Play the group, with a prefix where the task is too hard."""
        checkpoint = self._checkpoint(ticket)
        members = range(ticket.size)
        share = checkpoint / CHECKPOINTS
        aided_attempts = await _play_guided(runner, ticket, members, share, least=1) if checkpoint else None
        attempts = aided_attempts if aided_attempts is not None else await play_members(runner, ticket, members)
        groups = groups_by_seat(runner, ticket, attempts)
        trajectories = [trajectory for group in groups for trajectory in group.trajectories]
        if trajectories:
            visit = (
                ticket.number,
                checkpoint if aided_attempts is not None else 0,
                any(one.success for one in trajectories),
            )
            self._visits[ticket.index] = sorted([*self._visits.get(ticket.index, []), visit])[-8 * self.after * 8 :]
        return groups

    def state_dict(self) -> dict[str, Any]:
        """Of each task's groups: the ticket, the checkpoint, and whether there was a success."""
        return {"visits": [[index, *visit] for index, visits in self._visits.items() for visit in visits]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._visits = {}
        for index, number, checkpoint, is_solved in state["visits"]:
            self._visits.setdefault(index, []).append((number, checkpoint, is_solved))

    def _checkpoint(self, ticket: Ticket) -> int:
        """The quarters of the solution that this ticket is given, by what groups before it had come to."""
        visits = [visit for visit in self._visits.get(ticket.index, []) if visit[0] < ticket.settled]
        plain_groups = [is_solved for _, checkpoint, is_solved in visits if not checkpoint]
        if len(plain_groups) < self.after or any(plain_groups[-self.after :]):
            return 0
        if generator(ticket.seed, "guided").random() >= self.share:
            return 0
        tries = [[is_solved for _, at, is_solved in visits if at == place] for place in range(1, CHECKPOINTS)]
        shortest = hints.shortest_prefix([sum(of_place) for of_place in tries])
        if shortest is not None:
            return shortest + 1
        return 1 + min(range(len(tries)), key=lambda place: len(tries[place]))


async def _play_guided(
    runner: Runner, ticket: Ticket, members: Sequence[int], share: float, *, least: int = 0
) -> list[list[Match]] | None:
    """Play these members from a `share` of the oracle's solution on, rounded down; None where that is nothing.

    `least` is the smallest number of turns, or of words.
    """
    expert = await record_expert(runner, ticket)
    num_turns = min(max(int(share * len(expert.turns) + 1e-9), least), len(expert.turns) - 1)
    hint = "" if expert.error or len(expert.turns) > 1 else _words(expert, share, least)
    if expert.error or not (num_turns > 0 or hint):
        return None

    def wrap(env: gymnasium.Env) -> gymnasium.Wrapper:
        return _HintEnv(env, hint) if hint else ExpertEnv(env, expert, num_turns)

    attempts = await play_members(WrappingRunner(runner, wrap), ticket, members)
    for trajectory in (one for of_member in attempts for match in of_member for one in match):
        trajectory.guided = max(num_turns, 1)
    return attempts


def _words(expert: Trajectory, share: float, least: int) -> str:
    """The first words of the only reply of a solution, up to where the answer begins."""
    reply = expert.turns[0].reply
    solution = text(reply) if reply else ""
    answer = str(expert.answer) if expert.answer is not None else ""
    before = solution.partition(answer)[0] if answer else solution
    words = before.split()
    count = max(math.floor(share * len(solution.split()) + 1e-9), least)
    return " ".join(words[: min(count, len(solution.split()) - 1)])


class _HintEnv(gymnasium.Wrapper):
    """An environment whose first observation ends with the beginning of a solution."""

    def __init__(self, env: gymnasium.Env, hint: str) -> None:
        super().__init__(env)
        self.hint = hint

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Begin an episode; the hint is a paragraph of the last message."""
        messages, info = self.env.reset(seed=seed, options=options)
        *first, last = messages
        hint = f"{OPENING}\n{self.hint}"
        content = last["content"]
        whole = f"{content}\n\n{hint}" if isinstance(content, str) else [*content, {"type": "text", "text": hint}]
        return (*first, cast(Message, {**last, "content": whole})), info

    def step(self, action: Message | str) -> Step:  # type: ignore[override]
        """Play one turn of the environment itself."""
        return self.env.step(action)
