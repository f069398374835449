"""Recursions from the last token to the first.

`mask` is True on sampled tokens. Other positions hold observations and padding: their rewards and values are never
read, and what is carried backwards passes over them unchanged. Results at such positions mean nothing.

Legend: B trajectories, T token positions.
"""

from __future__ import annotations

import numpy as np

from rl.methods.estimators.shapes import expect_shapes
from rl.methods.estimators.statistics import Bools, Floats, Ints


def reward_to_go(rewards: Floats, mask: Bools, *, gamma: float = 1.0, reset_at_gap: bool = False) -> Floats:
    """Discounted return (B, T) from each token on: `G_t = r_t + gamma * G_next`, `next` the next sampled token.

    `mask` (B, T) is True on sampled tokens; `rewards` (B, T) elsewhere are never read, and results there mean nothing.
    `reset_at_gap` starts over at every position that was not sampled, so that no reward reaches the turns before its
    own. Some trainers ship that; the option is here to reproduce their numbers.
    """
    expect_shapes(rewards=(rewards, "BT"), mask=(mask, "BT"))
    returns = np.zeros_like(rewards)
    running = np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        value = rewards[:, t] + gamma * running
        returns[:, t] = value if reset_at_gap else np.where(mask[:, t], value, running)
        running = np.where(mask[:, t], value, 0.0 if reset_at_gap else running)
    return returns


def generalised_advantages(
    rewards: Floats, values: Floats, mask: Bools, *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[Floats, Floats]:
    """Advantages and value targets (B, T) of generalised advantage estimation (arXiv:1506.02438, eq. 16).

    `A_t = r_t + gamma * V_next - V_t + gamma * lam * A_next`, `next` the next sampled token; the target is `A_t + V_t`.
    After the last sampled token the value is 0. `mask` (B, T) is True on sampled tokens; `rewards` and `values` (B, T)
    elsewhere are never read, and results there mean nothing.
    """
    expect_shapes(rewards=(rewards, "BT"), values=(values, "BT"), mask=(mask, "BT"))
    advantages = np.zeros_like(rewards)
    running, next_value = np.zeros(len(rewards)), np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        is_sampled = mask[:, t]
        advantage = rewards[:, t] + gamma * next_value - values[:, t] + gamma * lam * running
        running = np.where(is_sampled, advantage, running)
        next_value = np.where(is_sampled, values[:, t], next_value)
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
    """Advantages and value targets (B, T) of RAGEN's bi-level estimation (arXiv:2504.20073): over turns, then in each.

    `turn` (B, T) is the index of a sampled token's turn and -1 elsewhere. With `V_k` the value of a turn's last token
    and `r_k` its reward, which must lie there, `A_k = r_k + gamma_turn * V_{k+1} - V_k + gamma_turn * lam * A_{k+1}`.
    Inside a turn, generalised advantage estimation runs backwards from a last reward of `A_k + V_k`, with no other
    reward and a value of 0 after it.
    """
    expect_shapes(rewards=(rewards, "BT"), values=(values, "BT"), turn=(turn, "BT"))
    advantages = np.zeros_like(rewards)
    current_turn = np.full(len(rewards), -1)  # of the tokens passed last
    turn_advantage, turn_value = np.zeros(len(rewards)), np.zeros(len(rewards))  # of the later turn
    running, next_value = np.zeros(len(rewards)), np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        is_sampled, value = turn[:, t] >= 0, values[:, t]
        is_last = is_sampled & (turn[:, t] != current_turn)
        over_turns = rewards[:, t] + gamma_turn * turn_value - value + gamma_turn * lam * turn_advantage
        turn_advantage, turn_value = np.where(is_last, over_turns, turn_advantage), np.where(is_last, value, turn_value)
        inside = np.where(is_last, over_turns + value, gamma * next_value) - value
        advantage = np.where(is_last, inside, inside + gamma * lam * running)
        running, next_value = np.where(is_sampled, advantage, running), np.where(is_sampled, value, next_value)
        current_turn = np.where(is_sampled, turn[:, t], current_turn)
        advantages[:, t] = running
    return advantages, advantages + values
