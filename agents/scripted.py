"""Scripted policies: oracle, random, no-op and replay. They play an environment by messages, without a model.

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

from envs.episodes.results import read_replies
from envs.types import Message, assistant

Script = Callable[[gymnasium.Env, int], Iterator[Message]]


def oracle(env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """Yield replies that earn the maximum return; `seed` is not read.

    Raises `ValueError` if the environment has no oracle.
    """
    try:
        replies = _env_method(env, "oracle")()
    except NotImplementedError as error:
        missing = _missing_method_error(env, "oracle")
        is_undefined = str(error).endswith("must define oracle()")  # as `envs.env.Env.oracle` says
        raise missing if is_undefined else ValueError(f"{_label(env)} has no oracle policy: {error}") from None
    return read_replies(f"{_label(env)}: oracle()", replies)


def random(env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """Yield the environment's random replies, drawn from `seed`, without end.

    Raises `ValueError` if the environment has none.
    """
    draw_reply, rng = _env_method(env, "random"), np.random.default_rng(seed)
    return read_replies(f"{_label(env)}: random(rng)", (draw_reply(rng) for _ in iter(int, 1)))


def noop(env: gymnasium.Env, seed: int) -> Iterator[Message]:
    """Yield the environment's reply that does nothing, without end; `seed` is not read.

    Raises `ValueError` if the environment has none.
    """
    noop_reply = _env_method(env, "noop")
    return read_replies(f"{_label(env)}: noop()", (noop_reply() for _ in iter(int, 1)))


def replay(replies: Iterable[Message | str]) -> Script:
    """Return a script that yields recorded replies in order, whatever the environment answers, and then ends.

    `replies` may be a whole dialogue: messages of other roles are skipped, and a string is an assistant's content.
    """
    messages = [assistant(reply) if isinstance(reply, str) else reply for reply in replies]
    own_messages = [message for message in messages if message["role"] == "assistant"]
    return lambda env, seed: iter(deepcopy(own_messages))


def _env_method(env: gymnasium.Env, name: str) -> Callable[..., Any]:
    """Return a method of the innermost environment. Raises `ValueError` if it has none of this name."""
    method = getattr(env.unwrapped, name, None)
    if method is None:
        raise _missing_method_error(env, name)
    return method


def _missing_method_error(env: gymnasium.Env, name: str) -> ValueError:
    return ValueError(f"{_label(env)} has no {name} policy; define {name}() in {type(env.unwrapped).__name__}")


def _label(env: gymnasium.Env) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__
