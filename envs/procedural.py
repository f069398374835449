"""Generated task sets: lazy, equal in every process, and without one problem in two splits.

`enumerated` is for problems that can be numbered, `drawn` for problems that can only be drawn. Both depend on BLAKE2
and a fixed generator, never on `hash()`, so neither PYTHONHASHSEED nor the order of calls changes a task.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, overload

import numpy as np

from envs.types import Task

HELD_OUT = 500  # most problems of "val" and of "test"
TRAIN = 100_000  # most problems of "train"
SHARE = {"test": 0.2, "val": 0.1}  # of all problems; the rest is "train"
PATIENCE = 10_000  # draws that may fail in a row before a set counts as too small
KEPT = 20_000  # tasks of a split that are remembered: some tens of megabytes
ROUNDS = 6  # a Feistel network of four rounds is already a pseudo-random permutation (Luby and Rackoff 1988)


def digest(*parts: Any) -> int:
    """A 64-bit number that depends on `parts` only."""
    text = json.dumps(parts, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def shuffled(position: int, total: int, key: str) -> int:
    """The number at `position` of a permutation of `range(total)` that `key` chooses; needs no memory.

    A Feistel network permutes the next power of four; numbers that fall outside are sent through it again.
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


def cut(total: int, split: str) -> range:
    """The positions that belong to `split`: a fifth for "test", a tenth for "val" (each at most 500), else "train"."""
    if total < 10:
        raise ValueError(f"{total} problems are too few for three splits; 10 are the least")
    test = min(HELD_OUT, round(total * SHARE["test"]))
    val = min(HELD_OUT, round(total * SHARE["val"]))
    bounds = {"test": (0, test), "val": (test, test + val), "train": (test + val, total)}
    start, stop = bounds[split]
    return range(start, min(stop, start + TRAIN))


class Lazy(Sequence[Task]):
    """A split whose tasks are made when they are first read. `make(i)` gives task `i`; its id becomes `"split/i"`.

    They are kept, the least recently read being forgotten beyond `KEPT`.
    """

    def __init__(self, split: str, length: int, make: Callable[[int], Task]) -> None:
        self.split = split
        self._length = length
        self._at = lru_cache(KEPT)(lambda index: replace(make(index), id=f"{split}/{index}"))

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
        return self._at(index % self._length)


def enumerated(split: str, total: int, build: Callable[[int], Task], *, key: str) -> Sequence[Task]:
    """A split of `total` numbered problems, in an order that `key` chooses.

    `build` makes the problem of a number in `range(total)`. As each number has one place, no problem occurs twice.
    """
    places = cut(total, split)
    return Lazy(split, len(places), lambda i: build(shuffled(places[i], total, key)))


def drawn(
    split: str, length: int, draw: Callable[[np.random.Generator], Task], *, key: str, same: Callable[[Task], Any]
) -> Sequence[Task]:
    """A split of problems that `draw` makes from a generator.

    `same(task)`, JSON-able, is equal for tasks that count as one problem: its digest decides the split such a problem
    may stand in. "val" and "test" hold each problem once; "train" may repeat its own.
    Raises ValueError where so many different problems cannot be found.
    """
    taken: set[str] = set()

    def make(index: int) -> Task:
        for attempt in range(PATIENCE):
            task = draw(np.random.Generator(np.random.PCG64(digest(key, split, index, attempt))))
            name = json.dumps(same(task), sort_keys=True)
            if name not in taken and _home(name, key) == split:
                if split != "train":
                    taken.add(name)
                return task
        raise ValueError(f"{key}: split {split!r} has no {length} different problems; ask for fewer")

    if split == "train":
        return Lazy(split, length, make)
    return [replace(make(index), id=f"{split}/{index}") for index in range(length)]


def _home(name: str, key: str) -> str:
    point = digest(key, "split", name) / 2**64
    for split, share in SHARE.items():
        if point < share:
            return split
        point -= share
    return "train"
