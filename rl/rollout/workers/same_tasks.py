"""Whether an environment has the same tasks in every process of a run, and when the run is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.exits import close_env
from envs.watchdog import WATCHDOG

SAMPLE = 16  # tasks that are compared, of a split that may have millions
MOST_ITEMS, MOST_CHARACTERS, DEEPEST = 32, 2000, 6  # of a list or mapping, a text, and nested ones in a task
ADVICE = (
    "a task's place in the list is all that a run knows it by; give `tasks` an order that does not depend on the "
    "process (no set, no random numbers without a seed, no folder listing without `sorted`)"
)

_digests: dict[tuple[int, int], tuple[Sequence, str]] = {}  # by list, which lives as long as `load` keeps it


class OtherTasks(ValueError):
    """An environment has other tasks in a worker than in the process of the run."""


def tasks_digest(env: Any, split: str, most: int | None = None) -> str:
    """Return a digest of up to `SAMPLE` tasks of a split, evenly spread over the first `most`, and of their number.

    It is computed once per process and list, before anything is played that could add to the tasks. Of long texts and
    lists the beginning is compared, and nothing of data that is not JSON-able.

    Raises what `load` of the environment raises, `envs.watchdog.Overrun` if a lazy list takes too long.
    """
    tasks = env.unwrapped.load(split)
    count = len(tasks) if most is None else min(most, len(tasks))
    key = (id(tasks), count)
    if key not in _digests:
        _digests[key] = tasks, WATCHDOG.load_call(f"sample of the {split} tasks", _digest, tasks, count)
    return _digests[key][1]


@dataclass(frozen=True)
class SameTasks:
    """Makes environments like `make_env`, in any process, and raises `OtherTasks` if they have other tasks than here.

    Attributes:
        make_env: Makes an environment.
        split: The split that is compared.
        digest: `tasks_digest` of one that it makes in the process of the run.
    """

    make_env: Callable[[], Any]
    split: str
    digest: str

    def __call__(self) -> Any:
        """Make an environment and look at its tasks."""
        env = self.make_env()
        try:
            if tasks_digest(env, self.split) != self.digest:
                raise OtherTasks(f"the {self.split} tasks are others here than in the run's own process: {ADVICE}")
        except BaseException:
            close_env(env)
            raise
        return env


def _digest(tasks: Sequence, count: int) -> str:
    total = hashlib.blake2b(str(count).encode(), digest_size=8)
    for index in sorted({step * count // SAMPLE for step in range(SAMPLE)}) if count else ():
        task = tasks[index]
        try:
            content = (task.id, task.prompt, task.answer, task.metadata)
            text = json.dumps(_comparable(content, DEEPEST))
        except Exception:  # data of any kind may be in a task, and much of it plays well
            text = "?"
        total.update(text.encode())
    return total.hexdigest()


def _comparable(value: Any, depth: int) -> Any:
    """What is compared of a value: the same for values that are equal, in every process; None for other data."""
    if isinstance(value, str):
        return [len(value), value[:MOST_CHARACTERS]]
    if isinstance(value, (bool, int, float)):
        return value
    if not depth:
        return None
    if isinstance(value, Mapping):
        keys = sorted(value, key=str)[:MOST_ITEMS]
        return [len(value), [[str(key), _comparable(value[key], depth - 1)] for key in keys]]
    if isinstance(value, (list, tuple)):
        return [len(value), [_comparable(one, depth - 1) for one in value[:MOST_ITEMS]]]
    return None
