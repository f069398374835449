"""Advantages of whole replies, from a critic that is learned beside the policy."""

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
    """ArCHer (arXiv:2402.19446): fill the stream `reply_advantage` from a critic of whole replies.

    The critic is two estimates `Q` of what a reply is worth and two `V` of what the dialogue is worth before it, each
    linear in the policy's last hidden state there, which it does not change. For `epochs` steps of Adam on all turns of
    the update, each of which moves an estimate by `rate` or so at most, `Q` goes towards `r + gamma * V'` of the next
    turn and `V` towards `Q'` of the reply that was sampled; `V'` and `Q'` are slow copies that go a share `tau` of the
    way after each step. What a turn then earns is `min(Q_1, Q_2) - min(V_1, V_2)`. Nothing follows the last turn, also
    where a limit cut the episode short.
    """

    gamma: Share = 0.95
    tau: Share = 0.1
    epochs: Count = 200
    rate: Positive = 0.1
    _state: dict[str, Any] = field(default_factory=dict, init=False, compare=False)

    async def __call__(self, scorer: Scorer, groups: Sequence[Group]) -> None:
        """Learn from the turns, then say what they were worth."""
        played = turn_table.read(groups)
        states = np.concatenate(scorer.features(list(turn_table.trajectories(groups))))
        before, after = (np.column_stack([states[:, side], np.ones(len(states))]) for side in (0, 1))
        done = played.index == played.counts[played.trajectory] - 1
        for _ in range(self.epochs):
            self._step(before, after, played.reward, done)
        values, worths = self._worth(self._state["heads"], before, after)
        earned = critic_targets.advantage((worths[0], worths[1]), (values[0], values[1]))
        turn_table.fill(groups, "reply_advantage", np.repeat(earned, played.tokens))

    def state_dict(self) -> dict[str, Any]:
        """The critic, its slow copy and where Adam stands."""
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self._state = dict(state)

    def _step(self, before: Floats, after: Floats, rewards: Floats, done: Bools) -> None:
        """One step of all four heads, the rows V_1, V_2, Q_1, Q_2 of (4, E + 1)."""
        state = self._state or _begun(before.shape[1])
        values, worths = self._worth(state["heads"], before, after)
        slow_values, slow_worths = self._worth(state["slow"], before, after)
        following = np.roll(slow_values, -1, axis=1)  # the next turn of the same trajectory, unless it is done
        wanted = critic_targets.action_target(rewards, done, following, gamma=self.gamma)
        slope = np.concatenate([(values - slow_worths) @ before, (worths - wanted) @ after]) * 2 / len(rewards)
        count = state["count"] + 1
        mean = BETAS[0] * state["mean"] + (1 - BETAS[0]) * slope
        square = BETAS[1] * state["square"] + (1 - BETAS[1]) * slope**2
        unbiased = mean / (1 - BETAS[0] ** count), np.sqrt(square / (1 - BETAS[1] ** count)) + EPS
        reach = np.repeat([np.abs(states).sum(1).mean() for states in (before, after)], 2)  # of a step of 1 per weight
        heads = state["heads"] - self.rate / reach[:, None] * unbiased[0] / unbiased[1]
        slow = state["slow"] + self.tau * (heads - state["slow"])
        self._state = {"heads": heads, "slow": slow, "mean": mean, "square": square, "count": count}

    @staticmethod
    def _worth(heads: Floats, before: Floats, after: Floats) -> tuple[Floats, Floats]:
        """Both `V` before each turn and both `Q` after it, (2, R) each."""
        return heads[:2] @ before.T, heads[2:] @ after.T


def _begun(width: int) -> dict[str, Any]:
    """Four heads that differ by little; a bias of 0."""
    heads = generator("reply_advantage").normal(0.0, 0.01, (4, width))
    heads[:, -1] = 0.0
    none = np.zeros_like(heads)
    return {"heads": heads, "slow": heads, "mean": none, "square": none, "count": 0}
