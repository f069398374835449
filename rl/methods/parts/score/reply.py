"""Advantages of whole replies, from a critic that is trained beside the policy.

Legend: R turns of an update, E hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl.methods.estimators import critic_targets, turn_table
from rl.methods.estimators.statistics import Bools, Floats
from rl.methods.options import Count, Positive, Share
from rl.methods.parts.score.scorer import Scorer
from rl.records import Group
from rl.seeds import generator

BETAS, EPS = (0.9, 0.999), 1e-8  # of Adam


@dataclass
class reply_advantage:
    """ArCHer (arXiv:2402.19446): fill the streams `reply_advantage` and `reply_value` from a critic of whole replies.

    The critic has two estimates `Q` of the value of a reply and two estimates `V` of the value of the dialogue before
    it, each linear in the policy's last hidden state there, which it does not change. In each of `epochs` steps of Adam
    on all turns of the update, `Q` is regressed on `r + gamma * V'` of the next turn and `V` on `Q'` of the sampled
    reply; a step moves an estimate by about `rate` at most. `V'` and `Q'` are slow copies that move by a share `tau` of
    the difference after each step. The value of a reply is `min(Q_1, Q_2)`, and its advantage is that less `min(V_1,
    V_2)`; with `greater` the larger ones are taken. Nothing follows the last turn, also where a limit cut the episode
    short.
    """

    gamma: Share = 0.95
    tau: Share = 0.1
    epochs: Count = 200
    rate: Positive = 0.1
    greater: bool = False
    _state: dict[str, Any] = field(default_factory=dict, init=False, compare=False)

    async def __call__(self, scorer: Scorer, groups: Sequence[Group]) -> None:
        """Train the critic on the turns of `groups`, then write their advantages."""
        table = turn_table.from_groups(groups)
        states = np.concatenate(scorer.features(list(turn_table.trajectories(groups))))  # (R, 2, E)
        before, after = (np.column_stack([states[:, side], np.ones(len(states))]) for side in (0, 1))
        done = table.index == table.num_turns[table.trajectory] - 1
        for _ in range(self.epochs):
            self._step(before, after, table.rewards, done)
        v, q = self._estimate(self._state["heads"], before, after)
        advantages = critic_targets.advantage((q[0], q[1]), (v[0], v[1]), greater=self.greater)
        values = (np.maximum if self.greater else np.minimum)(q[0], q[1])
        for name, numbers in (("reply_advantage", advantages), ("reply_value", values)):
            turn_table.write_stream(groups, name, np.repeat(numbers, table.num_tokens))

    def state_dict(self) -> dict[str, Any]:
        """The critic's four estimates, their slow copy and the state of Adam; {} before the first update."""
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._state = dict(state)

    def _step(self, before: Floats, after: Floats, rewards: Floats, done: Bools) -> None:
        """One step of Adam on all four heads, the rows V_1, V_2, Q_1, Q_2 of (4, E + 1)."""
        state = self._state or _initial_state(before.shape[1])
        v, q = self._estimate(state["heads"], before, after)
        slow_v, slow_q = self._estimate(state["slow"], before, after)
        next_v = np.roll(slow_v, -1, axis=1)  # of the next turn of the same trajectory, unless the turn is its last
        targets = np.stack([critic_targets.action_target(rewards, done, twin, gamma=self.gamma) for twin in next_v])
        gradient = np.concatenate([(v - slow_q) @ before, (q - targets) @ after]) * 2 / len(rewards)
        count = state["count"] + 1
        mean = BETAS[0] * state["mean"] + (1 - BETAS[0]) * gradient
        square = BETAS[1] * state["square"] + (1 - BETAS[1]) * gradient**2
        direction, size = mean / (1 - BETAS[0] ** count), np.sqrt(square / (1 - BETAS[1] ** count)) + EPS
        # How far a step of 1 per weight moves the estimates of each head:
        reach = np.repeat([np.abs(states).sum(1).mean() for states in (before, after)], 2)
        heads = state["heads"] - self.rate / reach[:, None] * direction / size
        slow = state["slow"] + self.tau * (heads - state["slow"])
        self._state = {"heads": heads, "slow": slow, "mean": mean, "square": square, "count": count}

    @staticmethod
    def _estimate(heads: Floats, before: Floats, after: Floats) -> tuple[Floats, Floats]:
        """Both `V` before each turn and both `Q` after it, (2, R) each."""
        return heads[:2] @ before.T, heads[2:] @ after.T


def _initial_state(width: int) -> dict[str, Any]:
    """Four heads (4, width) that differ by little, with a bias of 0, and an Adam that has made no step."""
    heads = generator("reply_advantage").normal(0.0, 0.01, (4, width))
    heads[:, -1] = 0.0
    zeros = np.zeros_like(heads)
    return {"heads": heads, "slow": heads, "mean": zeros, "square": zeros, "count": 0}
