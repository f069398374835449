"""Trees that grow by single turns: at every turn several candidates from one prompt, of which one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from agents.agent import Agent, Internal
from envs.types import Message, Stop
from rl.methods.options import NonNegative
from rl.methods.parts import plays_seats, samples_by_turn
from rl.records import Group, Ticket, Trajectory
from rl.rollout.faults import set_error
from rl.rollout.player import Player
from rl.rollout.runner import Runner
from rl.rollout.seat import Seat, Start
from rl.rollout.table import GameTable, SoloTable
from rl.rollout.turn_records import Step, answer_turn
from rl.seeds import generator

Steps = Mapping[str, Step]


@plays_seats
@samples_by_turn
async def turn_tree(
    runner: Runner,
    ticket: Ticket,
    *,
    select: Literal["best", "sample", "first"] = "best",
    score: Literal["round", "own"] = "round",
    compare: Literal["turn", "agent", "all"] = "turn",
    alpha: NonNegative = 1.0,
) -> list[Group]:
    """AT-GRPO (arXiv:2510.11062): at each turn of each agent, `ticket.size` replies to one prompt; one of them goes on.

    A candidate is a trajectory of one turn. With `select="best"` the one with the highest reward goes on (the first of
    equal ones), with `"sample"` one that the seed draws, with `"first"` the first. A candidate earns what its seat is
    paid until it would be asked again: the seats that move in between answer each candidate once, and are not trained
    on that. With `score="own"` it earns only what the step itself pays. Of seats that move together, each one's
    candidates meet the first candidates of the others.

    With `compare="turn"`, candidates are compared with those of the same turn and agent; as ablations, `"agent"`
    compares all turns of an agent, and `"all"` all candidates. `alpha` is the weight of the named reward `team`, where
    the environment has one; the rest of a reward is local. Trajectories say whether the line that went on succeeded.
    The environment is brought back to a turn by giving the replies again, in order.
    """
    errors: list[Trajectory] = []
    while len(errors) <= runner.retries:
        tree = _Tree(runner, ticket, select, score, alpha)
        try:
            await tree.grow()
        except Exception as error:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            errors.append(Trajectory([], Stop.ERROR, seed=ticket.seed, agent=runner.seats[0]))
            set_error(errors[-1], error)
            continue
        return _merge(ticket, tree.candidates, compare, errors)
    return [Group(ticket, [], errors)]


@dataclass
class _Player:
    """The play of one seat along the line that goes on."""

    agent: Agent
    prompt: list[int] = field(default_factory=list)
    is_open: bool = False


class _Tree:
    """The candidates of one ticket."""

    def __init__(self, runner: Runner, ticket: Ticket, select: str, score: str, alpha: float) -> None:
        self.runner, self.ticket, self.select, self.score, self.alpha = runner, ticket, select, score, alpha
        self.policies = {name: cast(Player, runner.player(ticket, name)) for name in runner.seats}
        self.players = {name: _Player(policy.make_agent()) for name, policy in self.policies.items()}
        self.line: list[dict[str, Message]] = []  # the replies that have gone on
        self.candidates: list[list[Trajectory]] = []  # of each turn and seat

    async def grow(self) -> None:
        """Play turn by turn until the line is over."""
        env = self.runner.take()
        try:
            await self._grow(env)
        except BaseException:
            self.runner.discard(env)
            raise
        self.runner.put(env)

    async def _grow(self, env: Any) -> None:
        table, steps = await self._replay(env)
        start_time, success = self.runner.clock.now(), False
        while movers := {name: step for name, step in steps.items() if not (step[2] or step[3])}:
            is_late = self.runner.clock.now() - start_time > self.runner.episode_s
            for name, step in movers.items():
                self._read(self.players[name], step)
            has_room = all(len(self.players[name].prompt) + 1 < self.runner.max_tokens for name in movers)
            if is_late or not has_room:
                break
            turn = len(self.line)
            batches = {
                name: await self._sample(name, f"{name}.{turn}", self.players[name], movers[name]) for name in movers
            }
            replies = {
                name: [self._message(self.players[name], seat) for seat in seats] for name, seats in batches.items()
            }
            line: dict[str, Message] = {}
            for name, seats in batches.items():
                others = {other: texts[0] for other, texts in replies.items() if other != name}
                trajectories = []
                for member, (seat, reply) in enumerate(zip(seats, replies[name], strict=True)):
                    table, _ = await self._replay(env)
                    after, num_tokens = await self._score(table, {**others, name: reply}, name, f"{turn}.{member}")
                    trajectories.append(self._record(seat, name, reply, after, movers[name]))
                    trajectories[-1].num_side_sampled = num_tokens
                self.candidates.append(trajectories)
                choice = self._choose([trajectory.reward for trajectory in trajectories], turn)
                line[name] = replies[name][choice]
                player, ids = self.players[name], seats[choice].pending.completion.ids  # type: ignore[union-attr]
                player.agent.act(ids)
                player.prompt += ids
            self.line.append(line)
            table, steps = await self._replay(env)
            success = success or any(bool(step[4].get("success")) for step in steps.values())
        for trajectory in (t for trajectories in self.candidates for t in trajectories):
            trajectory.success = success

    async def _replay(self, env: Any) -> tuple[Any, Steps]:
        """Bring the environment to the end of the line; return its table and what it says there."""
        if self.runner.seats == ("agent",):
            seat = Seat(self.runner, self.ticket, Trajectory([], Stop.ERROR, agent="agent.line"), Start())
            self.runner.play_state.stop(seat.session)
            table: Any = SoloTable(self.runner, self.ticket, env, seat)
        else:
            table = GameTable(self.runner, self.ticket, 0, env)
        steps = await table.reset()
        for replies in self.line:
            steps = await table.step(replies)
        return table, steps

    @staticmethod
    def _read(player: _Player, step: Step) -> None:
        messages, _, _, _, info = step
        if player.is_open:
            context = player.agent.observe(messages)
        else:
            context = player.agent.open(messages, info.get("tools", ()))
        player.is_open = True
        player.prompt = [*context.ids] if context.fresh else [*player.prompt, *context.ids]

    async def _sample(self, name: str, key: str, player: _Player, step: Step, size: int = 0) -> list[Seat]:
        """Sample candidates for one turn of a seat, together; a resumed run has those that are complete."""
        seats = []
        for member in range(size or self.ticket.size):
            trajectory = Trajectory([], Stop.ERROR, seed=self.ticket.seed, member=member, agent=key)
            seats.append(Seat(self.runner, self.ticket, trajectory, Start(), self.policies[name]))
        async with asyncio.TaskGroup() as tasks:
            for seat in seats:
                tasks.create_task(self._sample_one(seat, player, step))
        return seats

    async def _sample_one(self, seat: Seat, player: _Player, step: Step) -> None:
        state = self.runner.play_state
        try:
            seat.ask(player.prompt, step)
            result = state.result(seat.session)
            if result is not None:
                seat.pending = deepcopy(result.turns[0])
                return
            await seat.sample()
            assert seat.pending is not None
            state.finish(seat.session, Trajectory([seat.pending], Stop.TERMINATED, member=seat.trajectory.member))
        finally:
            state.stop(seat.session)
            seat.player.policy.release(seat.session)

    @staticmethod
    def _message(player: _Player, seat: Seat) -> Message:
        """The reply of a candidate, read by a copy of its player's agent."""
        assert seat.pending is not None
        reply = _copy(player.agent).act(seat.pending.completion.ids)
        if isinstance(reply, Internal):
            raise TypeError("turn_tree samples single turns, and this agent asks for replies of its own")
        return reply

    async def _score(self, table: Any, replies: Mapping[str, Message], name: str, key: str) -> tuple[Step | None, int]:
        """Give a candidate; return what its seat is told next, after the seats in between have answered it once.

        The second number is how many tokens these answers took.
        """
        steps: Steps = await table.step(replies)
        num_tokens = 0
        players = {other: _Player(_copy(p.agent), [*p.prompt], p.is_open) for other, p in self.players.items()}
        while name not in steps and self.score == "round" and steps:
            answers = {}
            for other, step in steps.items():
                if step[2] or step[3]:
                    continue
                self._read(players[other], step)
                if len(players[other].prompt) + 1 >= self.runner.max_tokens:
                    continue
                (seat,) = await self._sample(other, f"{other}.{key}.{name}", players[other], step, size=1)
                answers[other] = self._message(players[other], seat)
                num_tokens += seat.pending.completion.num_sampled  # type: ignore[union-attr]
            if not answers:
                break
            steps = await table.step(answers)
        if name in steps:
            return steps[name], num_tokens
        return (await table.current(name) if isinstance(table, GameTable) else None), num_tokens

    def _record(self, seat: Seat, name: str, reply: Message, after: Step | None, before: Step) -> Trajectory:
        assert seat.pending is not None
        turn = replace(seat.pending)  # the state of play has the one without an answer
        turn.reply = reply
        if after is not None:
            turn = answer_turn(turn, after[1], after[4])
            turn.reward += (self.alpha - 1) * turn.rewards.get("team", 0.0)
        task, answer = str(before[4].get("task", "")), before[4].get("answer")
        member = seat.trajectory.member
        return Trajectory(
            [turn], Stop.TERMINATED, task=task, seed=self.ticket.seed, member=member, agent=name, answer=answer
        )

    def _choose(self, rewards: Sequence[float], turn: int) -> int:
        if self.select == "best":
            return max(range(len(rewards)), key=lambda member: (rewards[member], -member))
        if self.select == "first":
            return 0
        return int(generator(self.ticket.seed, "goes on", turn).integers(len(rewards)))


def _copy(agent: Agent) -> Agent:
    """A copy of an agent's dialogue; its renderer is shared."""
    renderer = getattr(agent, "renderer", None)
    return deepcopy(agent, {id(renderer): renderer})


def _merge(
    ticket: Ticket, candidates: Sequence[list[Trajectory]], compare: str, errors: list[Trajectory]
) -> list[Group]:
    """The groups of candidates that are compared."""
    groups: dict[Any, list[Trajectory]] = {}
    for number, trajectories in enumerate(candidates):
        key = {"turn": number, "agent": trajectories[0].agent, "all": 0}[compare]
        groups.setdefault(key, []).extend(trajectories)
    result = [Group(ticket, trajectories) for trajectories in groups.values()] or [Group(ticket, [])]
    result[0].errored = errors
    return result
