"""One environment with several sets of arguments, task by task: `variants:ID`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np

import envs
from envs.env import Env
from envs.procedural import LazyTasks
from envs.types import Message, Messages, Outcome, Stop, Task

MAX_VARIANTS = 100


class Variants(Env):
    """Tasks of one environment under several sets of its arguments, so that a sampler can choose between them.

    Task i of a split is played with set i % N of the N sets; it is task i // N of the environment with these arguments.
    The sampler `in_reach:kinds=N` draws from the sets that a policy can neither do nor not do: capabilities to train.

    Observation, action, rewards, metrics, episode end: those of the environment.
    Splits and tasks: those of the environment, as many from each set as the shortest has. Whether a problem of one set
    is also one of another, maybe in another split, depends on the environment. State: the set and the own state.
    Source and licence: after TRACE's environments for one capability each, here an environment's own arguments instead
    of generated code; own code. Version history: v0.

    Args:
        name: The environment, such as "math/Arithmetic-v0". It has one seat.
        over: Values of arguments, `{"level": [0, 1, 2]}`; a set is one value of each, the last argument first varied.
        env_args: Further arguments, the same in all sets.
        style: "full" or "short", also of the environment.
        max_turns: Limit of turns; by default that of the environment, the longest of all sets.
        **limits: Arguments of `Env`.

    Raises:
        ValueError: `over` is empty or no lists of values by name, or `name` is no environment of one seat.

    """

    def __init__(
        self,
        name: str,
        /,
        *,
        over: Mapping[str, Sequence[Any]] | None = None,
        env_args: Mapping[str, Any] | None = None,
        style: Literal["full", "short"] = "full",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        self.sets = _sets(over)
        arguments = {"style": style, **(env_args or {})}
        made = [envs.make(name, **{**arguments, **one}).unwrapped for one in self.sets]
        inner = [env for env in made if isinstance(env, Env)]
        if len(inner) < len(made):
            raise ValueError(f'{name} is no environment of one seat; name one, or add env_args={{"opponent": ...}}')
        self._all, self._inner = inner, inner[0]
        super().__init__(style=style, max_turns=max_turns or max(env.max_turns for env in inner), **limits)
        self.blocking, self.max_return = any(env.blocking for env in inner), max(env.max_return for env in inner)
        self.leaks, self.is_contest = self._inner.leaks, any(env.is_contest for env in inner)
        self._stop: Stop | None = None

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of all sets, in turn."""
        own = [env.load(split) for env in self._all]

        def build(index: int) -> Task:
            place, number = index % len(own), index // len(own)
            task = own[place][number]
            metadata = {"set": place, "arguments": self.sets[place], "task": task.id}
            return Task(task.id, answer=task.answer, metadata=metadata)

        return LazyTasks(split, len(own) * min(map(len, own)), build)

    def start(self) -> Messages:
        """Open the task with its set of arguments."""
        place, self._stop = self.task.metadata["set"], None
        self._inner = self._all[place]
        options = {"split": self.split, "index": self.index // len(self._all)}
        messages, info = self._inner.reset(seed=int(self.np_random.integers(2**31)), options=options)
        self.tools = info["tools"]
        return messages

    def reply(self, action: Message) -> Outcome:
        """Play one turn of the environment."""
        messages, reward, terminated, truncated, info = self._inner.step(action)
        if info.get("stop") == Stop.ERROR:
            raise RuntimeError(info.get("error") or "the environment reports a fault of its own")
        self._stop = Stop(info["stop"]) if truncated else None
        success = bool(info.get("success", False))
        return Outcome(messages, reward, terminated, success, info["valid"], info["rewards"], info["metrics"])

    def state(self) -> str:
        """Return the number of the set and the environment's own state."""
        return f"{self.task.metadata['set']} {self._inner.state()}"

    def oracle(self) -> Iterator[Message]:
        """Return the replies of the environment's oracle. Raises NotImplementedError if it has none."""
        return self._inner.oracle()

    def noop(self) -> Message:
        """Return the environment's own reply that does nothing."""
        return self._inner.noop()

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random reply of the environment."""
        return self._inner.random(rng)

    def attacks(self) -> Sequence[str]:
        """Return the environment's own attacks."""
        return self._inner.attacks()

    def release(self) -> None:
        """Give back what the current task holds."""
        for env in self._all:
            env.release()

    def close(self) -> None:
        """Close all environments."""
        for env in self._all:
            env.close()

    def _limit(self) -> Stop | None:
        return self._stop or super()._limit()


def _sets(over: Mapping[str, Sequence[Any]] | None) -> list[dict[str, Any]]:
    """All combinations of the values."""
    example = 'write over={"level": [0, 1, 2]}'
    if not isinstance(over, Mapping) or not over:
        raise ValueError(f"over={over!r}: variants need the values of at least one argument; {example}")
    for name, values in over.items():
        if not isinstance(values, list | tuple) or not values:
            raise ValueError(f"over: {name}={values!r} is no list of values; {example}")
    sets = [dict(zip(over, values, strict=True)) for values in product(*over.values())]
    if len(sets) > MAX_VARIANTS:
        raise ValueError(f"over has {len(sets)} combinations; at most {MAX_VARIANTS} are played")
    return sets
