"""The runners of a run: one that it trains in, others in which it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from agents.chat import ChatAgent
from rl.policy.engine import Engine
from rl.records import SamplingParams
from rl.rollout.runner import Runner
from rl.rollout.seating import Seating
from rl.train.seats.opponents import Opponents


@dataclass(frozen=True)
class Runners:
    """Makes runners that differ in how replies are sampled and in who plays the other seats.

    Attributes:
        seating: The environment and its seats.
        opponents: Who plays the seats that the policy leaves.
        make_agent: Creates the agent of one episode.
        model: The model that is trained.
        policy: Samples the policy's replies.
        max_tokens: Most tokens of an episode.
    """

    seating: Seating
    opponents: Opponents
    make_agent: Callable[[], ChatAgent]
    model: nn.Module
    policy: Engine
    max_tokens: int

    def sync_weights(self) -> None:
        """Let the policy sample with the weights of an update, and both engines go on as new ones would."""
        self.policy.sync_weights()
        self.opponents.settle()

    def for_training(self, params: SamplingParams) -> Runner:
        """Return the runner of training, in which the policy's past weights sample as it does itself."""
        runner = self._table(params)
        if self.opponents.pool is not None:
            self.opponents.pool.connect(self.model, runner.own_player)
        return runner

    def for_evaluation(self, params: SamplingParams) -> Runner:
        """Return a runner in which the policy is measured: against its opponent, else as `Seating` says."""
        return self._table(params) if self.opponents.player else self.for_cold_start(params)

    def for_cold_start(self, params: SamplingParams) -> Runner:
        """Return a runner in which imitation is measured, whoever the opponent in training is."""
        if not self.seating.is_contest:
            return self._runner(self.seating.make_env, params, self.seating.seats)
        return self._runner(self.seating.make_view, params, ("agent",))

    def _table(self, params: SamplingParams) -> Runner:
        runner = self._runner(self.seating.make_env, params, self.seating.seats)
        runner.lineup = self.opponents.lineup
        return runner

    def _runner(self, make_env: Callable, params: SamplingParams, seats: tuple[str, ...]) -> Runner:
        return Runner(make_env, self.make_agent, self.policy, params, self.max_tokens, seats=seats)
