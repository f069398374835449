"""Generated task sets: lazy, equal in every process, without a problem that is in two splits.

`enumerated` is for problems that can be numbered, `drawn` for problems that can only be sampled. Both use BLAKE2 and a
seeded generator, never `hash()`, so neither PYTHONHASHSEED nor the order of calls changes a task.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from typing import Any, overload

import numpy as np

from envs.types import Task

MAX_HELD_OUT = 500  # problems of "val", and of "test"
MAX_TRAIN = 100_000  # problems of "train"
HELD_OUT_SHARES = {"test": 0.2, "val": 0.1}  # of all problems; the rest is "train"
LEAST_HELD_OUT = 10  # problems of "val", and of "test", that `drawn` needs
MAX_ATTEMPTS = 10_000  # draws in a row without a new problem after which `drawn` counts as exhausted
CACHE_SIZE = 20_000  # tasks of a split that are cached: some tens of megabytes
ROUNDS = 6  # a Feistel network of four rounds is already a pseudo-random permutation (Luby and Rackoff 1988)


def digest(*parts: Any) -> int:
    """Return a 64-bit hash of JSON-able `parts` as an int from 0 to 2**64 - 1, equal in every process."""
    text = json.dumps(parts, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def permute(position: int, total: int, key: str) -> int:
    """Return the number at `position` of a pseudo-random permutation of `range(total)`, which `key` selects.

    A Feistel network permutes the next power of four. A number outside the range goes through the network again. It
    takes no memory; `position` must be in `range(total)`.
    """
    half = max(1, ((total - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    number = position
    while True:
        left, right = number >> half, number & mask
        for turn in range(ROUNDS):
            left, right = right, left ^ (digest(key, turn, right) & mask)
        number = left << half | right
        if number < total:
            return number


def split_positions(total: int, split: str) -> range:
    """Return the positions of `split` ("train", "val" or "test") among `total` problems, as a range.

    A fifth is "test" and a tenth "val", each at most `MAX_HELD_OUT`; of the rest the first `MAX_TRAIN` are "train".
    Raises ValueError for fewer than 10 problems.
    """
    if total < 10:
        raise ValueError(f"{total} problems are too few for three splits; 10 are the least")
    test = min(MAX_HELD_OUT, round(total * HELD_OUT_SHARES["test"]))
    val = min(MAX_HELD_OUT, round(total * HELD_OUT_SHARES["val"]))
    bounds = {"test": (0, test), "val": (test, test + val), "train": (test + val, total)}
    start, stop = bounds[split]
    return range(start, min(stop, start + MAX_TRAIN))


class LazyTasks(Sequence[Task]):
    """Tasks that are created when they are first read; the `CACHE_SIZE` most recently read ones are cached.

    Args:
        split: Name of the split; the id of task `i` becomes "SPLIT/i".
        length: Number of tasks.
        make: Creates task `i`.
    """

    def __init__(self, split: str, length: int, make: Callable[[int], Task]) -> None:
        self.split = split
        self._length = length
        self._task_at = lru_cache(CACHE_SIZE)(lambda index: replace(make(index), id=f"{split}/{index}"))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"task {index} of {self._length} in split {self.split!r}")
        return self._task_at(index % self._length)


def enumerated(split: str, total: int, build: Callable[[int], Task], *, key: str) -> Sequence[Task]:
    """Return the tasks of a split of problems that are numbered. No problem occurs twice.

    The tasks get the ids "SPLIT/0", "SPLIT/1", ... Raises ValueError for fewer than 10 problems.

    Args:
        split: "train", "val" or "test".
        total: Number of problems in all splits together.
        build: Creates the task of a problem number in `range(total)`.
        key: Selects the order of the problems; use the environment's id.
    """
    positions = split_positions(total, split)
    return LazyTasks(split, len(positions), lambda i: build(permute(positions[i], total, key)))


def drawn(
    split: str, length: int, draw: Callable[[np.random.Generator], Task], *, key: str, same: Callable[[Task], Any]
) -> Sequence[Task]:
    """Return `length` tasks of a split of problems that are sampled, with the ids "SPLIT/0", "SPLIT/1", ...

    "val" and "test" hold each problem once, and fewer than `length` where so many are not found; "train" may repeat its
    own. No problem is in two splits.

    Args:
        split: "train", "val" or "test".
        length: Number of tasks in this split.
        draw: Samples a task with a generator.
        key: Seeds the generators; use the environment's id.
        same: Maps a task to a JSON-able value that is equal for tasks that count as one problem. A digest of it decides
            which split the problem belongs to.

    Raises:
        ValueError: "val" or "test" has fewer than `LEAST_HELD_OUT` problems, or "train" has none, which shows when one
            of its tasks is read.
    """
    problems: set[str] = set()

    def find(index: int) -> Task | None:
        for attempt in range(MAX_ATTEMPTS):
            task = draw(np.random.Generator(np.random.PCG64(digest(key, split, index, attempt))))
            problem = json.dumps(same(task), sort_keys=True)
            if problem not in problems and _split_of(problem, key) == split:
                if split != "train":
                    problems.add(problem)
                return task
        return None

    def train_task(index: int) -> Task:
        if (task := find(index)) is None:
            raise ValueError(f"{key}: split 'train' has no problem; arguments that allow more are needed")
        return task

    if split == "train":
        return LazyTasks(split, length, train_task)
    tasks = [*takewhile(lambda task: task is not None, map(find, range(length)))]
    if len(tasks) < min(LEAST_HELD_OUT, length):
        raise ValueError(
            f"{key}: split {split!r} has {len(tasks)} problems of the {LEAST_HELD_OUT} that are needed; arguments that "
            "allow more are needed"
        )
    return [replace(task, id=f"{split}/{index}") for index, task in enumerate(tasks) if task]


def _split_of(problem: str, key: str) -> str:
    point = digest(key, "split", problem) / 2**64
    for split, share in HELD_OUT_SHARES.items():
        if point < share:
            return split
        point -= share
    return "train"
