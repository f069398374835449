"""The real environment that a world model stands in for, and random play of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import envs
from envs.env import Env
from envs.simulated.prediction import Prediction
from envs.types import Message, text

STYLES = ("full", "short")


class Transition(NamedTuple):
    """One reply of an episode and what the environment made of it.

    Attributes:
        dialogue: The episode so far; its last message is the reply.
        outcome: What followed.
    """

    dialogue: Sequence[Message]
    outcome: Prediction


def make_inner(name: str, style: str, env_args: Mapping[str, Any] | None) -> Env:
    """Make the environment that is simulated.

    Raises ValueError if `name` is not that of an environment of one seat, or it offers tools natively: a world model
    predicts one text for a reply, so an environment with tools is simulated in short style, where calls are text.
    """
    if style not in STYLES:
        raise ValueError(f"style {style!r} is not one of {', '.join(STYLES)}")
    env = envs.make(name, **{"style": style, **(env_args or {})}).unwrapped
    if not isinstance(env, Env):
        raise ValueError(f'{name} is no environment of one seat; name one, or add env_args={{"opponent": ...}}')
    if env.tools:
        raise ValueError(f"{name} offers tools natively, which a world model cannot answer; use style=short")
    return env


def play(env: Env, rng: np.random.Generator, split: str, mistakes: float) -> Iterator[Transition]:
    """Play an episode of a random task of `split`, and yield its transitions.

    Each reply is the oracle's, or with probability `mistakes` a random one. `mistakes` is drawn anew between 0 and its
    double (at most 1) for each episode, so that there are good and bad ones.
    """
    share = rng.uniform(0, min(1.0, 2 * mistakes))
    seed, index = int(rng.integers(2**31)), int(rng.integers(len(env.load(split))))
    env.reset(seed=seed, options={"split": split, "index": index})
    oracle = env.oracle()
    is_over = False
    while not is_over:
        reply = env.random(rng) if rng.random() < share else next(oracle)
        messages, _, terminated, truncated, info = env.step(reply)
        before = env.dialogue[: len(env.dialogue) - len(messages)]
        yield Transition(before, outcome_of(messages, terminated, info))
        is_over = terminated or truncated


def outcome_of(messages: Sequence[Message], terminated: bool, info: Mapping[str, Any]) -> Prediction:
    """Return one step of the real environment as the prediction that would have been right."""
    observation = "\n".join(text(message) for message in messages)
    return Prediction(observation, terminated, terminated and bool(info.get("success")))
