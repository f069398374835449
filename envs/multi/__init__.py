"""Environments for several language models: PettingZoo environments whose observations and actions are messages."""

from envs.multi.game_tree import (
    best_response_value,
    build_tree,
    expected_value,
    exploitability,
    information_states,
    uniform,
)

__all__ = [
    "best_response_value",
    "build_tree",
    "expected_value",
    "exploitability",
    "information_states",
    "uniform",
]
