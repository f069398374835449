"""The environment that the checks examine, scripted ways to play it, and the record of an episode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np

from envs.catalogue import make
from envs.data import MissingData
from envs.env import SPLITS, Env
from envs.episodes.results import read_replies
from envs.step_info import StepInfo
from envs.types import Message, Messages, text
from envs.watchdog import WATCHDOG

Replies = Callable[[Env], Iterable[Message | str]]  # called after reset; one reply is read per turn
MAX_TURNS = 10_000
MAX_QUOTE = 60  # characters of a random reply that reasoning quotes
REASONING = (
    "My first idea was {}, but that does not look right, and neither does {} here.\n"
    "There may be {} ways to go on, so let me take the one that I am sure of."
)


class Untestable(Exception):
    """The environment lacks what a check needs; the message says what."""


Step = tuple[Messages, float, bool, bool, StepInfo]


@dataclass(frozen=True)
class EnvUnderTest:
    """An environment that the checks examine, by name.

    Args:
        spec: Any name that `envs.make` takes.
        arguments: Arguments of the constructor.
        tasks: Limit on the tasks, and on the seeds, that a check plays; None for no limit on tasks, 4 seeds.
    """

    spec: str
    arguments: dict[str, Any] = field(default_factory=dict)
    tasks: int | None = None

    def make(self, **more: Any) -> Env:
        """Make a new instance without wrappers; `more` arguments go before `arguments`.

        Raises TypeError if it is not an `envs.env.Env`.
        """
        env = make(self.spec, **{**self.arguments, **more}).unwrapped
        if not isinstance(env, Env):
            raise TypeError(f"{self.spec} is a {type(env).__name__}, not an envs.env.Env")
        return env

    def indices(self, env: Env, limit: int | None = None) -> range:
        """Return indices of tasks in the split that checks play, spread evenly over it.

        At most `limit` and at most `self.tasks` of them; None of either is no limit.
        """
        length = len(env.load(held_out_split(env)))
        count = min(bound for bound in (length, limit, self.tasks) if bound is not None)
        return range(0, length, -(-length // max(1, count)))


@dataclass
class Episode:
    """What an environment returned in one episode: opening messages, the info of `reset`, the results of `step`."""

    opening: Messages
    info: StepInfo
    turns: list[Step] = field(default_factory=list)

    @property
    def total_reward(self) -> float:
        """Sum of the rewards of all turns."""
        return sum(turn[1] for turn in self.turns)

    @property
    def success(self) -> bool:
        """Whether the last info says success; False without a turn."""
        return bool(self.turns and self.turns[-1][4].get("success"))

    @property
    def is_over(self) -> bool:
        """Whether the last turn terminated or truncated the episode; False without a turn."""
        return bool(self.turns and (self.turns[-1][2] or self.turns[-1][3]))

    def digest(self) -> str:
        """Return a hash, in hex, of everything in the episode."""
        text = json.dumps([self.opening, self.info, self.turns], sort_keys=True, default=repr)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def available_splits(env: Env) -> Iterator[str]:
    """Yield the splits that have tasks, "test" first. Raises MissingData if there is none."""
    errors = []
    for split in reversed(SPLITS):
        try:
            if len(env.load(split)):
                yield split
            else:
                errors.append(MissingData(f"{type(env).__name__} has no tasks: all splits are empty"))
        except MissingData as error:
            errors.append(error)
    if len(errors) == len(SPLITS):
        raise errors[0]


def held_out_split(env: Env) -> str:
    """Return the first split with tasks of "test", "val" and "train": the one that checks play.

    Raises MissingData if none has any.
    """
    return next(available_splits(env))


def play(
    env: Env,
    replies: Replies,
    *,
    seed: int = 0,
    index: int | None = None,
    split: str | None = None,
    turns: int = MAX_TURNS,
) -> Episode:
    """Play one episode of `split` (None: the split of `held_out_split`) for at most `turns` turns and return it.

    Args:
        env: The environment; it is reset first.
        replies: Called with `env` after the reset; yields one reply per turn. If it ends first, the episode stays
            unfinished.
        seed: Seed of the episode.
        index: Index of the task in the split; None to let the seed draw one.
        split: Split of the task.
        turns: Limit on the turns.
    """
    options: dict[str, Any] = {"split": split or held_out_split(env)} | ({} if index is None else {"index": index})
    task = f"a task of {options['split']}" if index is None else f"task {options['split']}/{index}"
    label = f"{type(env).__name__}: {{}} of {task} seed {seed}"
    reset = partial(env.reset, seed=seed, options=options)
    episode = Episode(*WATCHDOG.step_call(label.format("reset"), reset))
    iterator = iter(replies(env))
    for _ in range(turns):
        reply = WATCHDOG.step_call(label.format("reply"), next, iterator, None)
        if reply is None:
            break
        episode.turns.append(WATCHDOG.step_call(label.format("step"), env.step, reply))
        if episode.is_over:
            break
    return episode


def has_oracle(env: Env) -> bool:
    """Whether the environment, which has been reset, defines an oracle.

    One that fails is defined too: it may have no reply to an episode that is over. Where it should have one, the check
    that plays it finds the fault.
    """
    try:
        env.oracle()
    except NotImplementedError:
        return False
    except Exception:
        return True
    return True


def oracle_replies(env: Env) -> Iterable[Message]:
    """Return the replies of the environment's oracle or, where there is none, random ones."""
    return read_replies("oracle()", env.oracle()) if has_oracle(env) else random_replies(0)(env)


def thinking_replies(form: str, *, seed: int) -> Replies:
    r"""Return a function that, called with an environment, yields the oracle's replies after two sentences.

    The sentences name a random reply of the environment, which is seldom right, and two numbers.

    Args:
        form: How reasoning and reply are joined, such as `"{}\n{}"`.
        seed: Seed of the random replies.
    """

    def replies(env: Env) -> Iterator[Message]:
        rng = np.random.default_rng(seed)
        others = read_replies("random(rng)", (env.random(rng) for _ in iter(int, 1)))
        for message in oracle_replies(env):
            quote = " ".join(text(next(others)).split())[:MAX_QUOTE]
            reasoning = REASONING.format(quote, *rng.integers(2, 1000, size=2))
            yield cast(Message, {**message, "content": form.format(reasoning, text(message))})

    return replies


def noop_replies(env: Env) -> Iterator[Message]:
    """Yield the environment's no-op, without end."""
    return read_replies("noop()", (env.noop() for _ in iter(int, 1)))


def echo_replies(env: Env) -> Iterator[str]:
    """Yield the text of the environment's latest message, without end."""
    while True:
        yield next((text(message) for message in reversed(env.dialogue) if message["role"] != "assistant"), "")


def constant_replies(reply: str) -> Replies:
    """Return a function that, called with an environment, yields `reply` for every turn, without end."""

    def replies(env: Env) -> Iterator[str]:
        while True:
            yield reply

    return replies


def random_replies(seed: int) -> Callable[[Env], Iterator[Message]]:
    """Return a function that, called with an environment, yields its random replies, without end.

    They are drawn with a generator of their own, seeded with `seed`.
    """

    def replies(env: Env) -> Iterator[Message]:
        rng = np.random.default_rng(seed)
        return read_replies("random(rng)", (env.random(rng) for _ in iter(int, 1)))

    return replies
