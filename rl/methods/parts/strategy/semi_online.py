"""Episodes along an expert's record: the policy's own replies where they do the same, the expert's where not."""

from __future__ import annotations

from typing import Any

import gymnasium

from envs.types import Message, Messages
from rl.methods.options import Natural
from rl.methods.parts.strategy.expert import Answer, Following, Led, recorded
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket, Trajectory
from rl.rollout.runner import Runner

FORMAT, PARSED = 0.1, 0.1  # shares of a turn's reward: for a valid reply; of the rest, for one that is wrong


async def semi_online(runner: Runner, ticket: Ticket, *, patches: Natural = 2) -> Group:
    """UI-S1 (arXiv:2509.11543): play along a record of the environment's oracle on the same ticket.

    A reply that does the same as the expert's goes on in the recorded episode, with the policy's own words in its
    history. One that does not is patched, up to `patches` times: environment and history go on with the expert's, and
    the reply that was sampled is trained all the same; the next turn is `fresh`. One more ends the episode. A turn is
    paid 0.1 for a valid reply, and 0.9 for doing the same or 0.09 for any other valid one; its metrics `matched` and
    `patched` say which it was. An episode without a mismatch is a success.
    """
    expert = await recorded(runner, ticket)
    if expert.error:
        return Group(ticket, [], [expert])
    return await independent(Following(runner, lambda env: _Patched(env, expert, patches)), ticket)


class _Patched(Led):
    """Answers every reply as if the expert had given it."""

    def __init__(self, env: gymnasium.Env, expert: Trajectory, patches: int) -> None:
        super().__init__(env, expert)
        self.patches = patches
        self.patched = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Begin the expert's episode."""
        self.patched = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Message | str) -> Answer:  # type: ignore[override]
        """Play one turn; where the expert's reply takes its place, `info["instead"]` is it."""
        turn, self.turn = self.turn, self.turn + 1
        last = self.turn == len(self.expert.turns)
        answer = self.env.step(action)
        messages, _, _, _, told = answer
        matched, valid = self.does_the_same(turn, answer), bool(told.get("valid", True))
        rewards = {"format": FORMAT * valid, "action": (1 - FORMAT) * (1.0 if matched else PARSED * valid)}
        told = {**told, "rewards": rewards, "stop": "terminated", "success": matched and not self.patched}
        told["metrics"] = {**told.get("metrics", {}), "matched": float(matched), "patched": 0.0}
        ended = last or not (matched or self.patched < self.patches)
        if not matched and not ended:
            self.patched += 1
            self.lead(self.turn)
            messages = self.expert.turns[self.turn].observation
            told |= {"instead": self.said(turn), "state": self.expert.turns[self.turn].state}
            told["metrics"]["patched"] = 1.0
        return messages, sum(rewards.values()), ended, False, told
