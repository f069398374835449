"""The runners of a run: one that it trains in, others in which it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.chat import ChatAgent
from rl.records import SamplingParams
from rl.rollout.player import Lineup, Player
from rl.rollout.runner import Runner
from rl.rollout.seating import Seating
from rl.rollout.workers.pool import Workers
from rl.train.seats.opponents import Opponents, default_opponents
from rl.train.seats.trainees import Trainees


@dataclass(frozen=True)
class Runners:
    """Makes runners that differ in how replies are sampled and in who plays the other seats.

    Attributes:
        seating: The environment and its seats.
        opponents: Who plays the seats that the trained policies leave.
        make_agent: Creates the agent of one episode.
        trainees: The policies that are trained. A runner's own policy is the first of them.
        max_tokens: Most tokens of an episode.
        workers: Processes that hold the environments; None for this one.
    """

    seating: Seating
    opponents: Opponents
    make_agent: Callable[[], ChatAgent]
    trainees: Trainees
    max_tokens: int
    workers: Workers | None = None

    def close(self) -> None:
        """End the workers, after the runners are closed."""
        if self.workers is not None:
            self.workers.close()

    def description(self) -> str:
        """Return lines on who plays which seat and is measured against whom; "" for one agent."""
        against = self.opponents.description()
        if len(self.trainees) == 1 or against:
            lines = [against or self.seating.description(), self.trainees.description()]
        else:
            opponent = f"against {self.seating.opponent}, seat by seat"
            where = opponent if self.seating.is_contest else "in all seats together"
            lines = [f"{self.trainees.description()}; they are measured {where}"]
        if self.workers is not None:
            lines.append(self.workers.description())
        return "\n".join(filter(None, lines))

    def sync_weights(self) -> None:
        """Let the policies sample with the weights of an update, and all engines go on as new ones would."""
        self.trainees.sync_weights()
        self.opponents.settle()

    def for_training(self, params: SamplingParams) -> Runner:
        """Return the runner of training, in which the policy's past weights sample as it does itself."""
        runner = self._table(params, self.opponents)
        if self.opponents.pool is not None:
            self.opponents.pool.connect(self.trainees.first.trained_model.model, runner.own_player)
        return runner

    def for_evaluation(self, params: SamplingParams) -> Runner:
        """Return a runner in which the policies are measured: against their opponent, else as `Seating` says.

        With several policies in a contest, each plays its seats in turn against the default opponent.
        """
        if self.opponents.players:
            return self._table(params, self.opponents)
        if len(self.trainees) > 1:
            is_contest = self.seating.is_contest
            return self._table(params, default_opponents(self.seating) if is_contest else self.opponents)
        return self.for_cold_start(params)

    def for_cold_start(self, params: SamplingParams) -> Runner:
        """Return a runner in which imitation is measured, of the first policy, whoever the opponent in training is."""
        if not self.seating.is_contest:
            return self._runner(self.seating.make_env, params, self.seating.seats)
        return self._runner(self.seating.make_view, params, ("agent",))

    def _table(self, params: SamplingParams, opponents: Opponents) -> Runner:
        runner, of_roles = self._runner(self.seating.make_env, params, self.seating.seats), self._role_players(params)
        runner.lineup = lambda ticket: {**of_roles, **opponents.lineup(ticket)}
        return runner

    def _role_players(self, params: SamplingParams) -> Lineup:
        """The players of all trained policies but the first, which is the runner's own."""
        return {
            seat: Player("", self.make_agent, one.policy, params, self.max_tokens)
            for one in self.trainees
            if one is not self.trainees.first
            for seat in one.role.seats
        }

    def _runner(self, make_env: Callable, params: SamplingParams, seats: tuple[str, ...]) -> Runner:
        policy = self.trainees.first.policy
        make_env = self.workers.far(make_env, "train") if self.workers else make_env
        return Runner(make_env, self.make_agent, policy, params, self.max_tokens, seats=seats)
