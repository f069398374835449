"""The rounds of an environment of several seats, played beside the environment, in whatever process that is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from envs.step_info import StepInfo
from envs.types import Message, assistant
from rl.rollout.turn_records import Step

if TYPE_CHECKING:  # imports PettingZoo
    from envs.multi.multi_env import MultiEnv

SILENCE = assistant("")


class GameRounds:
    """One episode of an environment of several seats.

    Only `seats` are asked, others say `""`. So does, from then on, a seat that is asked and gives no reply: it is not
    asked again; what it earns or loses by that is still its own.
    """

    def __init__(self, env: MultiEnv, seats: Collection[str]) -> None:
        self.env, self.seats = env, seats
        self._asked_seats = set(seats)
        self._silent_rewards: dict[str, float] = {}  # of seats that are silent, since their last reply

    def reset(self, *, seed: int, options: dict[str, Any]) -> dict[str, Step]:
        """Begin the episode; return the steps of the seats that are asked or have ended."""
        self.env.reset(seed=seed, options=options)
        return self._play_on()

    def step(self, replies: Mapping[str, Message]) -> dict[str, Step]:
        """Give the replies of the seats that were asked; return the steps of those that are asked or have ended."""
        for seat in self.env.to_move:
            if seat in self._asked_seats and seat not in replies:
                self._asked_seats.discard(seat)
                self._silent_rewards[seat] = -self.env._cumulative_rewards[seat]  # is known to the seat already
        self._play_round(replies)
        return self._play_on()

    def current(self, seat: str) -> Step | None:
        """Return what a seat would be told now, if its episode is not over: what it has earned since its last reply."""
        return self._observe(seat) if seat in self.env.agents else None

    def _play_on(self) -> dict[str, Step]:
        """Play until a seat is asked or all is over."""
        env, steps = self.env, {}
        while True:
            while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
                seat = env.agent_selection
                steps[seat] = self._observe(seat)
                env.step(None)
            movers = [seat for seat in env.to_move if seat in self._asked_seats]
            if movers or not env.agents:
                steps |= {seat: self._observe(seat) for seat in movers}
                return {seat: step for seat, step in steps.items() if seat in self.seats}
            self._play_round({})

    def _play_round(self, replies: Mapping[str, Message]) -> None:
        for seat in self.env.to_move:
            if seat in self._silent_rewards:
                self._silent_rewards[seat] += self.env._cumulative_rewards[seat]
            self.env.step(replies.get(seat, SILENCE))

    def _observe(self, seat: str) -> Step:
        env, info = self.env, cast(StepInfo, dict(self.env.infos[seat]))
        reward = env._cumulative_rewards[seat] + self._silent_rewards.get(seat, 0.0)
        return env.observe(seat), reward, env.terminations[seat], env.truncations[seat], info
