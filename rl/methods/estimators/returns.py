"""Recursions from the last token to the first, on (B, T) arrays: B trajectories, T tokens.

`mask` is True on sampled tokens. Elsewhere lie observations and padding: rewards and values there are never read,
and what is carried backwards passes over them unchanged. Outputs at such positions mean nothing.
"""

from __future__ import annotations

import numpy as np

from rl.methods.estimators.statistics import Bools, Floats, Ints


def reward_to_go(rewards: Floats, mask: Bools, *, gamma: float = 1.0, reset_at_gap: bool = False) -> Floats:
    """`G_t = r_t + gamma * G_next`, where `next` is the next sampled token.

    `reset_at_gap` restarts at every position that was not sampled, so that no reward reaches the turns before its
    own. Some trainers ship that; it is here to reproduce their numbers.
    """
    returns = np.zeros_like(rewards)
    running = np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        earned = rewards[:, t] + gamma * running
        returns[:, t] = earned if reset_at_gap else np.where(mask[:, t], earned, running)
        running = np.where(mask[:, t], earned, 0.0 if reset_at_gap else running)
    return returns


def generalised_advantages(
    rewards: Floats, values: Floats, mask: Bools, *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[Floats, Floats]:
    """Advantages and value targets of generalised advantage estimation (arXiv:1506.02438, eq. 16).

    `A_t = r_t + gamma * V_next - V_t + gamma * lam * A_next`; the target is `A_t + V_t`. After the last sampled
    token the value is 0.
    """
    advantages = np.zeros_like(rewards)
    running, following = np.zeros(len(rewards)), np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        sampled = mask[:, t]
        advantage = rewards[:, t] + gamma * following - values[:, t] + gamma * lam * running
        running = np.where(sampled, advantage, running)
        following = np.where(sampled, values[:, t], following)
        advantages[:, t] = running
    return advantages, advantages + values


def bilevel_advantages(
    rewards: Floats,
    values: Floats,
    turn: Ints,
    *,
    gamma_turn: float = 0.95,
    gamma: float = 1.0,
    lam: float = 1.0,
) -> tuple[Floats, Floats]:
    """Advantages and value targets of bi-level estimation (RAGEN, arXiv:2504.20073): over turns, then within each.

    `turn` is -1 where not sampled. With `V_k` the value of a turn's last token and `r_k` its reward, which must lie
    there, `A_k = r_k + gamma_turn * V_{k+1} - V_k + gamma_turn * lam * A_{k+1}`. Inside a turn, generalised advantage
    estimation runs backwards from a last reward of `A_k + V_k`, with no other reward and a value of 0 after it.
    """
    advantages = np.zeros_like(rewards)
    held = np.full(len(rewards), -1)  # the turn that is being passed through
    later, later_value = np.zeros(len(rewards)), np.zeros(len(rewards))
    running, following = np.zeros(len(rewards)), np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        sampled, value = turn[:, t] >= 0, values[:, t]
        last = sampled & (turn[:, t] != held)
        over_turns = rewards[:, t] + gamma_turn * later_value - value + gamma_turn * lam * later
        later, later_value = np.where(last, over_turns, later), np.where(last, value, later_value)
        inside = np.where(last, over_turns + value, gamma * following) - value
        advantage = np.where(last, inside, inside + gamma * lam * running)
        running, following = np.where(sampled, advantage, running), np.where(sampled, value, following)
        held = np.where(sampled, turn[:, t], held)
        advantages[:, t] = running
    return advantages, advantages + values
