"""Small games of PettingZoo, for tests of the adapter."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Countdown(AECEnv):
    """Three seats take one or two sticks of a pile in turn; who cannot go on leaves with -1, the last one gets 1.

    With two or more sticks both actions are legal. A seat that takes the last stick leaves, and the pile is filled up.
    """

    metadata = {"name": "countdown_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self, sticks: int = 4, seats: int = 3) -> None:
        super().__init__()
        self.sticks = sticks
        self.possible_agents = [f"seat_{number}" for number in range(seats)]
        self.render_mode = None

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Dict({"observation": spaces.Box(0, 99, (2,), np.int64), "action_mask": spaces.MultiBinary(2)})

    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(2, start=1)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = [*self.possible_agents]
        self.pile = self.sticks + int(np.random.default_rng(seed).integers(3))
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> dict[str, Any]:
        mask = np.array([1, self.pile > 1], np.int8)
        return {"observation": np.array([self.pile, len(self.agents)]), "action_mask": mask}

    def step(self, action: int | None) -> None:
        seat = self.agent_selection
        if self.terminations[seat]:
            return self._was_dead_step(action)
        assert action in (1, 2) and action <= self.pile, f"illegal: {action} of {self.pile}"
        self._clear_rewards()
        self.pile -= action
        following = self.agents[(self.agents.index(seat) + 1) % len(self.agents)]
        if self.pile == 0:
            self.rewards[seat], self.terminations[seat] = -1.0, True
            self.pile = self.sticks
            staying = [agent for agent in self.agents if not self.terminations[agent]]
            if len(staying) == 1:
                self.rewards[staying[0]], self.terminations[staying[0]] = 1.0, True
        self.agent_selection = following
        self._accumulate_rewards()
        self._deads_step_first()
        return None


class Pennies(ParallelEnv):
    """Matching pennies, three times: `even` gets 1 where both show the same side, else `odd` does."""

    metadata = {"name": "pennies_v0", "render_modes": []}  # noqa: RUF012
    possible_agents = ["even", "odd"]  # noqa: RUF012

    def __init__(self) -> None:
        self.render_mode = None

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.MultiDiscrete([4, 3])

    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, self.round = [*self.possible_agents], 0
        return self._observe([2, 2]), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        self.round += 1
        wins = actions["even"] == actions["odd"]
        is_over = self.round == 3
        result = (
            self._observe([actions["odd"], actions["even"]]),
            {"even": float(wins), "odd": float(not wins)},
            dict.fromkeys(self.agents, is_over),
            dict.fromkeys(self.agents, False),
            {agent: {} for agent in self.agents},
        )
        self.agents = [] if is_over else self.agents
        return result

    def _observe(self, last: list[int]) -> dict[str, Any]:
        return {agent: np.array([self.round, shown]) for agent, shown in zip(self.possible_agents, last, strict=True)}


class Named(Countdown):
    """A countdown of agents with other names, which are paid 0 when they are gone."""

    def __init__(self, names: str = "player ann,bob-2,cyd") -> None:
        super().__init__()
        self.possible_agents = names.split(",")

    def step(self, action: int | None) -> None:
        super().step(action)
        self.rewards = dict.fromkeys(self.possible_agents, 0.0) | self.rewards

    def _accumulate_rewards(self) -> None:
        for agent in self.agents:
            self._cumulative_rewards[agent] += self.rewards[agent]


class Slashed(Named):
    """One whose first agent has a name that no seat can have."""

    def __init__(self) -> None:
        super().__init__("ann/1,bob")


class Pixels(Pennies):
    """Pennies whose observations are pictures."""

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Box(0, 255, (20, 20), np.uint8)

    def _observe(self, last: list[int]) -> dict[str, Any]:
        return {agent: np.full((20, 20), 7, np.uint8) for agent in self.possible_agents}


class Masked(Countdown):
    """A countdown with a mask of `entries` zeros."""

    def __init__(self, entries: int = 0) -> None:
        super().__init__()
        self.entries = entries

    def observe(self, agent: str) -> dict[str, Any]:
        return {**super().observe(agent), "action_mask": np.zeros(self.entries, np.int8)}


class Blind(Pennies):
    """Pennies that show nothing."""

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Text(9)

    def _observe(self, last: list[int]) -> dict[str, Any]:
        return dict.fromkeys(self.possible_agents)


class _Undocumented(AECEnv):
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(2)

    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(2)

    def close(self) -> None:
        pass


class Untold(_Undocumented):
    metadata = {"name": "untold_v0"}  # noqa: RUF012


def nameless() -> AECEnv:
    """Return a game without name and docstring."""
    return _Undocumented()


def say_nothing(game: Any, seat: str, observation: Any) -> None:
    pass


def describe_pixels(game: Any, seat: str, observation: Any) -> str:
    return f"{seat} sees {int(observation.mean())}"


def nothing() -> int:
    return 7
