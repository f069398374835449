"""The tasks of an environment: loaded once per process for equal arguments, and chosen for an episode."""

from __future__ import annotations

import operator
import os
import pickle
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from envs.arguments import check_arguments
from envs.data import MissingData, NoSplit
from envs.suggestions import unknown_message
from envs.types import Task
from envs.watchdog import WATCHDOG

SPLITS = ("train", "val", "test")
DEFAULT_SPLITS = ("train", "test", "val")  # without a split in the options, the first of these that has tasks
RESET_OPTIONS = ("index", "split")

_tasks: dict[Any, Sequence[Task]] = {}
_tasks_lock = threading.RLock()


class TaskLoading:
    """Loads and chooses the tasks that `tasks` of the class defines; the part of `envs.env.Env` that is about them."""

    np_random: np.random.Generator
    _arguments: tuple[tuple, dict[str, Any]]
    _cache_key: bytes | None = None
    _own_tasks: dict[Any, Sequence[Task]]  # task cache of an instance whose arguments cannot be pickled into a key
    _task_draw: float  # first number of the episode's generator, in [0, 1): chooses the task where no index is given

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the arguments, and remember them: they are part of the key under which tasks are cached."""
        check_arguments(cls, kwargs)
        env = super().__new__(cls)
        env._arguments, env._own_tasks = (args, kwargs), {}
        return env

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of the split "train", "val" or "test"; in a list, an empty id becomes "SPLIT/INDEX".

        They must depend on the class, its arguments and the split only. Raise `envs.data.MissingData` for a split that
        this machine has no data for.
        """
        raise NotImplementedError(f"{type(self).__name__} must define tasks(split)")

    def load(self, split: str) -> Sequence[Task]:
        """Return the tasks of `split`, created once per process for equal arguments.

        Raises ValueError for an unknown split, for what is no sequence of tasks and for a constructor without
        `super()`, MissingData for a split without data, Overrun if `tasks` takes too long.
        """
        if split not in SPLITS:
            raise ValueError(f"{self._name}: split {split!r} is not one of {', '.join(SPLITS)}")
        if not hasattr(self, "max_seconds"):
            raise ValueError(f"{type(self).__name__}.__init__ must call super().__init__(**limits) first")
        if self._cache_key is None:
            self._cache_key = _pickle_key(self._arguments)
        cache = _tasks if self._cache_key else self._own_tasks
        key = (type(self), self._cache_key, split, os.environ.get("TURNWISE_DATA"))
        if key not in cache:
            with _tasks_lock:
                if key not in cache:
                    tasks = WATCHDOG.load_call(f"{self._name}: tasks({split!r})", self._make_tasks, split)
                    cache[key] = _check_tasks(tasks, f"{self._name}: tasks({split!r})", split)
        return cache[key]

    def _make_tasks(self, split: str) -> Any:
        """Call `tasks`. Raises ValueError, in one line with the place, for errors whose text is not meant for users."""
        if not callable(self.tasks):
            kind = type(self.tasks).__name__
            raise ValueError(f"{self._name}: tasks is a {kind} and must be a method; give the {kind} another name")
        try:
            return self.tasks(split)
        except Exception as error:
            from sandboxes.source_files import raise_named  # a package that few commands need

            raise_named(error, f"{self._name}: tasks({split!r})", class_file(type(self)))

    def splits(self) -> Iterator[str]:
        """Yield the splits that have tasks, "train" before "test" before "val"; each is loaded just before."""
        for split in DEFAULT_SPLITS:
            with suppress(MissingData):
                if len(self.load(split)):
                    yield split

    @property
    def _name(self) -> str:
        raise NotImplementedError

    @cached_property
    def _default_split(self) -> str:
        """The first split with tasks. Raises MissingData where none has: what is said of the data that are missing."""
        split = next(self.splits(), None)
        if split is not None:
            return split
        errors = [error for each in DEFAULT_SPLITS if (error := self._missing_data(each))]
        raise next((error for error in errors if not isinstance(error, NoSplit)), None) or next(
            iter(errors), MissingData(f"{self._name} has no tasks")
        )

    def _missing_data(self, split: str) -> MissingData | None:
        try:
            self.load(split)
        except MissingData as error:
            return error
        return None

    def _choose_task(self, options: Mapping[str, Any]) -> tuple[str, int, Task]:
        for key in options:
            if key not in RESET_OPTIONS:
                raise ValueError(unknown_message("reset option", key, RESET_OPTIONS, of=self._name))
        split = options.get("split")
        if split is None:
            split = self._default_split
        tasks = self.load(split)
        if not len(tasks):
            raise ValueError(f"{self._name}: split {split!r} has no tasks")
        index = options.get("index")
        if index is None:
            _ = self.np_random  # creates the generator, whose first number is `_task_draw` whether it is used or not
            index = int(self._task_draw * len(tasks))
            return split, index, self._task_at(tasks, split, index)
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise ValueError(f"{self._name}: index must be an int, not {index!r}")
        index = operator.index(index)
        if not 0 <= index < len(tasks):
            raise IndexError(f"{self._name}: index {index} is outside 0..{len(tasks) - 1} of split {split!r}")
        return split, index, self._task_at(tasks, split, index)

    def _task_at(self, tasks: Sequence[Task], split: str, index: int) -> Task:
        task = tasks[index]
        if not isinstance(task, Task):
            raise TypeError(_no_task(f"{self._name}: tasks({split!r})", index, task))
        return task


def class_file(cls: type) -> str:
    """The file that defines a class; "" where that is unknown."""
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or ""


def _check_tasks(tasks: Any, label: str, split: str) -> Sequence[Task]:
    """Return the tasks of a split; in a list or tuple an id that is empty becomes "SPLIT/INDEX".

    Raises ValueError, which begins with `label`, for what is no sequence, and in a list or tuple for an entry that is
    no Task, an id that is no str, and an id that two tasks have. Other sequences may be lazy and are not gone through.
    """
    if isinstance(tasks, Mapping | str | bytes) or not (hasattr(tasks, "__len__") and hasattr(tasks, "__getitem__")):
        raise ValueError(f"{label} must return a sequence, such as a list, not {type(tasks).__name__}")
    if not isinstance(tasks, list | tuple):
        return tasks
    index_of: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise ValueError(_no_task(label, index, task))
        if not isinstance(task.id, str):
            raise ValueError(
                f"{label}: task {index} has the id {task.id!r}, which must be a str such as '{split}/{index}'"
            )
        if task.id and (other := index_of.setdefault(task.id, index)) != index:
            raise ValueError(f"{label}: tasks {other} and {index} have the same id {task.id!r}; results go by it")
    if all(task.id for task in tasks):
        return tasks
    return [task if task.id else replace(task, id=f"{split}/{index}") for index, task in enumerate(tasks)]


def _no_task(label: str, index: int, value: Any) -> str:
    return f"{label}: entry {index} is a {type(value).__name__}, not an envs.types.Task"


def _pickle_key(arguments: Any) -> bytes:
    """Cache key that tells arguments apart, even 1 from True; empty for arguments that cannot be pickled."""
    try:
        return pickle.dumps(arguments)
    except Exception:  # classes of the arguments may raise anything
        return b""
