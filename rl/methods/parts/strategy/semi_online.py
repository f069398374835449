"""Episodes along an expert's: the policy's own replies where they do what the expert's did, the expert's where not."""

from __future__ import annotations

from typing import Any

import gymnasium

from envs.types import Message, Messages
from rl.methods.options import Natural
from rl.methods.parts.strategy.expert import ExpertEnv, Step, WrappingRunner, record_expert
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket, Trajectory
from rl.rollout.runner import Runner

FORMAT_SHARE = 0.1  # of a turn's reward, for a valid reply
PARSED_SHARE = 0.1  # of the rest, for a valid reply that does otherwise than the expert's


async def semi_online(runner: Runner, ticket: Ticket, *, patches: Natural = 2) -> list[Group]:
    """UI-S1 (arXiv:2509.11543): play along an episode of the environment's oracle on the same ticket.

    After a reply that does what the expert's did, the expert's episode goes on, with the policy's own text in the
    history. A reply that does otherwise is patched, up to `patches` times: environment and history go on with the
    expert's reply, the sampled one is trained all the same, and the next turn is `fresh`: it starts a new token
    history. The mismatch after that ends the episode. A turn's reward is 0.1 for a valid reply, and 0.9 more for doing
    what the expert's did, or 0.09 more for any other valid reply; its metrics `matched` and `patched` say which it was.
    An episode without a mismatch is a success. Without a successful expert's episode the group has only an error.
    """
    expert = await record_expert(runner, ticket)
    if expert.error:
        return [Group(ticket, [], [expert])]
    return await independent(WrappingRunner(runner, lambda env: _PatchingEnv(env, expert, patches)), ticket)


class _PatchingEnv(ExpertEnv):
    """An environment that answers every reply as if the expert had given it."""

    def __init__(self, env: gymnasium.Env, expert: Trajectory, patches: int) -> None:
        super().__init__(env, expert)
        self.max_patches = patches
        self.num_patches = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Begin the expert's episode."""
        self.num_patches = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Message | str) -> Step:  # type: ignore[override]
        """Play one turn. Where the expert's reply takes the place of `action`, it is `info["instead"]`."""
        turn, self.turn = self.turn, self.turn + 1
        is_last = self.turn == len(self.expert.turns)
        result = self.env.step(action)
        messages, _, _, _, info = result
        is_match, is_valid = self.matches_expert(turn, result), bool(info.get("valid", True))
        action_share = 1.0 if is_match else PARSED_SHARE * is_valid
        rewards = {"format": FORMAT_SHARE * is_valid, "action": (1 - FORMAT_SHARE) * action_share}
        info = {**info, "rewards": rewards, "stop": "terminated", "success": is_match and not self.num_patches}
        info["metrics"] = {**info.get("metrics", {}), "matched": float(is_match), "patched": 0.0}
        terminated = is_last or not (is_match or self.num_patches < self.max_patches)
        if not is_match and not terminated:
            self.num_patches += 1
            self.replay(self.turn)
            messages = self.expert.turns[self.turn].observation
            info |= {"instead": self.expert_reply(turn), "state": self.expert.turns[self.turn].state}
            info["metrics"]["patched"] = 1.0
        return messages, sum(rewards.values()), terminated, False, info
