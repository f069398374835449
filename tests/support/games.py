"""Plays episodes of a game: with given replies, the oracle or random replies. A turn is the five-tuple of `step`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from envs.env import Env


def play_replies(env: Env, replies: Iterable[Any], *, seed: int = 0, **options: Any) -> list[tuple[Any, ...]]:
    """Reset with these options, step through the replies and return the turns."""
    env.reset(seed=seed, options=options)
    return step_replies(env, replies)


def step_replies(env: Env, replies: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Step until the replies or the episode end, and return the turns."""
    turns = []
    for reply in replies:
        turns.append(env.step(reply))
        if turns[-1][2] or turns[-1][3]:
            break
    return turns


def play_oracle(env: Env, index: int, split: str = "test") -> list[tuple[Any, ...]]:
    """Return the turns of the oracle's episode on a task."""
    env.reset(seed=0, options={"split": split, "index": index})
    return step_replies(env, env.oracle())


def is_won(turns: list[tuple[Any, ...]]) -> bool:
    """Whether the turns ended in success, with a reward of 1 on the last turn and of 0 before."""
    rewards = [turn[1] for turn in turns]
    return bool(turns[-1][4]["success"]) and rewards == [0.0] * (len(turns) - 1) + [1.0]


def random_win_rate(env: Env, episodes: int) -> float:
    """Return the share of test tasks that random replies win."""
    rng, wins = np.random.default_rng(0), 0
    for index in range(episodes):
        env.reset(seed=index, options={"split": "test", "index": index})
        wins += bool(step_replies(env, _random_replies(env, rng))[-1][4]["success"])
    return wins / episodes


def obs_text(turn: tuple[Any, ...]) -> str:
    """Return the text of a turn's observation."""
    return "\n".join(message["content"] for message in turn[0])


def _random_replies(env: Env, rng: np.random.Generator) -> Iterator[Any]:
    while True:
        yield env.random(rng)
