"""Episodes of a game in a line: played by replies, by the oracle, by chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from envs.env import Env


def play(env: Env, replies: Iterable[Any], *, seed: int = 0, **options: Any) -> list[tuple[Any, ...]]:
    """Reset with these options and take the turns; what `step` returned for each."""
    env.reset(seed=seed, options=options)
    return take(env, replies)


def take(env: Env, replies: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Take turns until the replies or the episode end."""
    turns = []
    for reply in replies:
        turns.append(env.step(reply))
        if turns[-1][2] or turns[-1][3]:
            break
    return turns


def expert(env: Env, index: int, split: str = "test") -> list[tuple[Any, ...]]:
    """The oracle's episode on a task."""
    env.reset(seed=0, options={"split": split, "index": index})
    return take(env, env.oracle())


def won(turns: list[tuple[Any, ...]]) -> bool:
    """Whether these turns ended in success, with reward 1 on the last one alone."""
    rewards = [turn[1] for turn in turns]
    return bool(turns[-1][4]["success"]) and rewards == [0.0] * (len(turns) - 1) + [1.0]


def chance(env: Env, episodes: int) -> float:
    """The share of test tasks that random replies win."""
    rng, wins = np.random.default_rng(0), 0
    for index in range(episodes):
        env.reset(seed=index, options={"split": "test", "index": index})
        wins += bool(take(env, _random(env, rng))[-1][4]["success"])
    return wins / episodes


def said(turn: tuple[Any, ...]) -> str:
    """What the environment answered."""
    return "\n".join(message["content"] for message in turn[0])


def _random(env: Env, rng: np.random.Generator) -> Iterator[Any]:
    while True:
        yield env.random(rng)
