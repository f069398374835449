"""Environments for several language models: PettingZoo environments whose observations and actions are messages."""

from envs.multi.game_tree import (
    best_response_value,
    build_tree,
    expected_value,
    exploitability,
    information_states,
    uniform,
)
from envs.multi.ratings import Game, Rating, bradley_terry, cross_play

__all__ = [
    "Game",
    "Rating",
    "best_response_value",
    "bradley_terry",
    "build_tree",
    "cross_play",
    "expected_value",
    "exploitability",
    "information_states",
    "uniform",
]
