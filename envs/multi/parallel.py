"""The `pettingzoo.ParallelEnv` of an environment in which every seat that plays moves in every round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium.error import ResetNeeded
from pettingzoo import ParallelEnv

from envs.messages import parse_action
from envs.multi.multi_env import MultiEnv
from envs.types import Message, Messages

Results = tuple[dict[str, Messages], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class ParallelView(ParallelEnv[str, Messages, "Message | str"]):
    """Steps all seats of a `MultiEnv` at once.

    Args:
        inner: The environment. Its `reset` and `step` must always put all seats that play into `to_move`; for a game
            of turns `reset` raises RuntimeError.
    """

    def __init__(self, inner: MultiEnv) -> None:
        self.inner, self.metadata = inner, inner.metadata
        self.possible_agents, self.render_mode = inner.possible_agents, inner.render_mode
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        """Space of the observations of a seat."""
        return self.inner.observation_space(agent)

    def action_space(self, agent: str) -> Any:
        """Space of the actions of a seat."""
        return self.inner.action_space(agent)

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Messages], dict[str, dict[str, Any]]]:
        """Start an episode; return the observation and the info of every seat."""
        self.inner.reset(seed=seed, options=options)
        self._check_simultaneous()
        self.agents = [*self.inner.agents]
        return self._observations(), {seat: dict(self.inner.infos[seat]) for seat in self.agents}

    def step(self, actions: Mapping[str, Message | str]) -> Results:  # type: ignore[override]
        """Play one round. A seat without an action replies `""`.

        Returns observations, rewards, terminations, truncations and infos by seat. Raises, before any seat has moved,
        ResetNeeded outside an episode, ValueError for an action of a seat that the game does not have, and TypeError or
        ValueError for an action that is no assistant message.
        """
        inner = self.inner
        if not self.agents:
            raise ResetNeeded(f"{inner._name}: no episode is running; call reset() before step()")
        if not isinstance(actions, Mapping):
            raise TypeError(f"{inner._name}: actions {actions!r:.80} are no dict of seats and their actions")
        if unknown := [seat for seat in actions if seat not in self.possible_agents]:
            raise ValueError(f"{inner._name}: no seat {unknown[0]!r}; seats are {', '.join(self.possible_agents)}")
        replies = {seat: parse_action(actions.get(seat, "")) for seat in inner.to_move}
        for seat in inner.to_move:
            inner.step(replies[seat])
        self.agents = [*inner.agents]
        results = (
            self._observations(),
            {seat: inner._cumulative_rewards[seat] for seat in self.agents},
            {seat: inner.terminations[seat] for seat in self.agents},
            {seat: inner.truncations[seat] for seat in self.agents},
            {seat: dict(inner.infos[seat]) for seat in self.agents},
        )
        while inner.agents and (inner.terminations[inner.agent_selection] or inner.truncations[inner.agent_selection]):
            inner.step(None)
        self.agents = [*inner.agents]
        self._check_simultaneous()
        return results

    def render(self) -> str | None:  # type: ignore[override]
        """Render the dialogue of all seats, as the inner environment does."""
        return self.inner.render()

    def close(self) -> None:
        """Close the inner environment."""
        self.inner.close()

    def _observations(self) -> dict[str, Messages]:
        return {seat: self.inner.observe(seat) for seat in self.agents}

    def _check_simultaneous(self) -> None:
        if set(self.inner.to_move) != set(self.inner.live):
            raise RuntimeError(f"{self.inner._name} is played in turns, so it has no parallel view; use the AEC one")
