"""Seats that something else than the runner's own policy plays: a script, or a client of whole messages."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agents.agent import Agent, Context
from envs.types import Message, assistant
from rl.records import Completion, SamplingParams, Ticket, Trajectory
from rl.rollout.player import AnyPlayer, Player, ScriptPlayer
from rl.rollout.runner import Runner
from rl.rollout.seat import OpponentFault, Seat, Start
from rl.rollout.turn_records import Step, make_turn
from rl.seeds import derive

if TYPE_CHECKING:  # imports PettingZoo
    from envs.multi.multi_env import MultiEnv

NO_TOKENS = Completion((), (), (), ())


def make_seat(
    runner: Runner, ticket: Ticket, trajectory: Trajectory, start: Start, player: AnyPlayer, env: Any
) -> Seat:
    """Return the seat that `trajectory` is of, for its player; `env` is what it is played in."""
    if isinstance(player, ScriptPlayer):
        return ScriptSeat(runner, ticket, trajectory, start, player, env)
    kind = MessageSeat if player.has_own_ids else Seat
    return kind(runner, ticket, trajectory, start, player)


class MessageSeat(Seat):
    """A seat whose replies are whole messages, encoded as ids that mean something in this process only.

    Recorded replies are encoded anew, and what the environment says is compared as messages. A reply that the
    environment had not answered is asked for again.
    """

    def __init__(self, runner: Runner, ticket: Ticket, trajectory: Trajectory, start: Start, player: Player) -> None:
        super().__init__(runner, ticket, trajectory, start, player)
        self.replay = [
            replace(turn, completion=replace(turn.completion, ids=self._agent.amend(turn.reply)))
            for turn in self.replay
            if turn.reply is not None
        ]
        self.partial_reply = None

    def _check_context(self, context: Context) -> None:
        turn = len(self.trajectory.turns)
        if turn < len(self.replay) and tuple(self.replay[turn].observation) != tuple(self.messages):
            raise self._divergence("says something else than")


class ScriptSeat(Seat):
    """A seat that a script plays. Nothing is replayed: the same episode, seat and turn give the same reply."""

    def __init__(
        self, runner: Runner, ticket: Ticket, trajectory: Trajectory, start: Start, script: ScriptPlayer, env: MultiEnv
    ) -> None:
        no_agent = cast(Agent, None)
        player = Player(script.name, lambda: no_agent, runner.policy, SamplingParams(), 0, script.is_opponent)
        super().__init__(runner, ticket, trajectory, start, player)
        self.replay, self.partial_reply = [], None
        self.script, self.env = script, env
        self._reply: Message | None = None

    def read(self, step: Step) -> None:
        """Read what the environment says before the next reply."""
        messages, _, _, _, info = step
        self.messages, self.info = messages, info
        if not self.trajectory.turns:
            self._begin(info)

    def extend_prompt(self, start_time: float) -> bool:
        """Return whether the episode's time is not over; a script has no prompt."""
        return not self._is_cut_off(self._late(start_time))

    async def sample(self) -> bool:
        """Ask the script for a reply, within the deadline of a step.

        Raises `OpponentFault` if an opponent's script fails; another one's error is raised as it is.
        """
        turn, sample_time = len(self.trajectory.turns), time.perf_counter()
        seat = self.trajectory.agent
        seed = derive(self.ticket.seed, "member", self.trajectory.member, seat, "script", turn)
        self.runner.play_state.begin_reply(self.session)
        label = f"{self.script.name} in seat {seat} of {self.label}"
        try:
            reply = await self.runner.call(
                self.env, self.ticket, label, self.script.reply, self.env, seat, np.random.default_rng(seed)
            )
        except Exception as error:
            if self.player.is_opponent:
                raise OpponentFault.of(self.player, seat, error) from error
            raise
        self._env_time = time.perf_counter()
        self.pending = make_turn((), NO_TOKENS, self.messages, self.info)
        self.pending.sample_s = self._env_time - sample_time
        self._reply = assistant(reply) if isinstance(reply, str) else reply
        self.runner.play_state.receive_reply(self.session, NO_TOKENS)
        return True

    def act(self) -> bool:
        """Take the reply for the environment."""
        assert self.pending is not None and self._reply is not None
        self.pending.reply = self._reply
        return True

    def _add_reply(self, ids: tuple[int, ...]) -> None:
        """A script has no prompt to extend."""
