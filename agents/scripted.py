"""Policies without a model: they play an environment message by message, for floors, ceilings and tests.

A script is called after `reset` and yields one reply per turn; it may look at the environment between turns.

    env.reset(seed=3)
    for reply in oracle(env, seed=3):
        _, reward, terminated, truncated, _ = env.step(reply)
        if terminated or truncated:
            break
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np

from envs.types import Message, assistant

Script = Callable[[gymnasium.Env, int], Iterator[Message]]


def oracle(env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """Replies that earn the maximum. ValueError if the environment has no oracle."""
    try:
        return iter(_own(env, "oracle")())
    except NotImplementedError:
        raise _lacks(env, "oracle") from None


def random(env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """The environment's random floor, drawn from `seed`; without end."""
    draw, rng = _own(env, "random"), np.random.default_rng(seed)
    return (draw(rng) for _ in iter(int, 1))


def noop(env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """The reply that does nothing, without end."""
    idle = _own(env, "noop")
    return (idle() for _ in iter(int, 1))


def replay(replies: Iterable[Message | str]) -> Script:
    """A script that gives the recorded replies, whatever the environment says; other roles are skipped."""
    messages = [assistant(reply) if isinstance(reply, str) else reply for reply in replies]
    own = [message for message in messages if message["role"] == "assistant"]
    return lambda env, seed: iter(deepcopy(own))


def _own(env: gymnasium.Env, name: str) -> Callable[..., Any]:
    """The method of the environment inside all wrappers."""
    method = getattr(env.unwrapped, name, None)
    if method is None:
        raise _lacks(env, name)
    return method


def _lacks(env: gymnasium.Env, name: str) -> ValueError:
    label = env.spec.id if env.spec else type(env.unwrapped).__name__
    return ValueError(f"{label} has no {name} policy; define {name}() in {type(env.unwrapped).__name__}")
