"""Whether an environment has the same tasks in every process of a run, and where the run is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from envs.exits import close_env

SAMPLE = 16  # tasks that are compared, of a split that may have millions
ADVICE = (
    "a task's place in the list is all that a run knows it by; give `tasks` an order that does not depend on the "
    "process (no set, no random numbers without a seed, no folder listing without `sorted`)"
)


def tasks_digest(env: Any, split: str) -> str:
    """Return a digest of up to `SAMPLE` tasks of a split, evenly spread, and of their number.

    What is no JSON-able data in them is not compared. Raises what `load` of the environment raises.
    """
    tasks = env.unwrapped.load(split)
    count = len(tasks)
    sample = [tasks[index] for index in sorted({step * count // SAMPLE for step in range(SAMPLE)})] if count else []
    content = [(task.id, task.prompt, task.answer, task.metadata) for task in sample]
    text = json.dumps((count, content), default=_items, skipkeys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class SameTasks:
    """Makes environments like `make_env`, in any process, and raises `ValueError` if they have other tasks than here.

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
        if tasks_digest(env, self.split) != self.digest:
            close_env(env)
            raise ValueError(f"{self.split} tasks differ between this worker and the process that began it: {ADVICE}")
        return env


def _items(value: Any) -> Any:
    """What stands for data that JSON does not know: the items of a mapping, and nothing of others."""
    return dict(value) if hasattr(value, "keys") else None
