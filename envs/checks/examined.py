"""The environment under examination, and what an episode of it looked like."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from envs.catalogue import make
from envs.data import MissingData
from envs.env import SPLITS, Env
from envs.types import Message, Messages, text

Replies = Callable[[Env], Iterable[Message | str]]  # called after reset; read one reply per turn
MANY_TURNS = 10_000


@dataclass(frozen=True)
class Subject:
    """The environment to check: its name, constructor arguments and how many tasks the oracle plays at most."""

    spec: str
    arguments: dict[str, Any] = field(default_factory=dict)
    tasks: int | None = None

    def make(self, **more: Any) -> Env:
        """A new instance. Raises TypeError for an environment of another kind than ours."""
        env = make(self.spec, **{**self.arguments, **more}).unwrapped
        if not isinstance(env, Env):
            raise TypeError(f"{self.spec} is a {type(env).__name__}, not an envs.env.Env")
        return env

    def indices(self, env: Env, most: int | None = None) -> range:
        """Held-out tasks to play, spread over the split: all of them, or as many as the bounds allow."""
        length = len(env.load(held_out(env)))
        wanted = min(bound for bound in (length, most, self.tasks) if bound is not None)
        return range(0, length, -(-length // max(1, wanted)))


@dataclass
class Episode:
    """Everything an environment returned in one episode."""

    opening: Messages
    info: dict[str, Any]
    turns: list[tuple[Messages, float, bool, bool, dict[str, Any]]] = field(default_factory=list)

    @property
    def total(self) -> float:
        """The return."""
        return sum(turn[1] for turn in self.turns)

    @property
    def won(self) -> bool:
        """Whether the episode ended in success."""
        return bool(self.turns and self.turns[-1][4].get("success"))

    @property
    def over(self) -> bool:
        """Whether the last turn ended the episode."""
        return bool(self.turns and (self.turns[-1][2] or self.turns[-1][3]))

    def digest(self) -> str:
        """A hash of all of it."""
        text = json.dumps([self.opening, self.info, self.turns], sort_keys=True, default=repr)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def there(env: Env) -> Iterator[str]:
    """The splits whose data are there, "test" first. Raises MissingData where there is none."""
    missing = []
    for split in reversed(SPLITS):
        try:
            env.load(split)
        except MissingData as error:
            missing.append(error)
        else:
            yield split
    if len(missing) == len(SPLITS):
        raise missing[0]


def held_out(env: Env) -> str:
    """The split that is played: "test", or the next best."""
    return next(there(env))


def play(
    env: Env,
    replies: Replies,
    *,
    seed: int = 0,
    index: int | None = None,
    split: str | None = None,
    turns: int = MANY_TURNS,
) -> Episode:
    """Play one episode of `split` (default: the one held out), at most `turns` turns of it.

    It ends early if the replies run out.
    """
    options: dict[str, Any] = {"split": split or held_out(env)} | ({} if index is None else {"index": index})
    episode = Episode(*env.reset(seed=seed, options=options))
    for _, reply in zip(range(turns), replies(env), strict=False):
        episode.turns.append(env.step(reply))
        if episode.over:
            break
    return episode


def expert(env: Env) -> Iterator[Message]:
    """The environment's own oracle."""
    return env.oracle()


def noop(env: Env) -> Iterator[Message]:
    """The environment's no-op, for ever."""
    while True:
        yield env.noop()


def echo(env: Env) -> Iterator[str]:
    """What the environment said last."""
    while True:
        yield next((text(message) for message in reversed(env.dialogue) if message["role"] != "assistant"), "")


def constant(reply: str) -> Replies:
    """The same reply for ever."""

    def replies(env: Env) -> Iterator[str]:
        while True:
            yield reply

    return replies


def floor(seed: int) -> Replies:
    """The environment's random policy, with a generator of its own."""

    def replies(env: Env) -> Iterator[Message]:
        rng = np.random.default_rng(seed)
        while True:
            yield env.random(rng)

    return replies
