"""Messages between a run and its workers, as `rl.processes.framing` sends them.

What a message says about an environment's code is trusted as much as that code is where it runs in the run itself.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple


class Call(NamedTuple):
    """Call a function in the worker.

    Attributes:
        number: Of the call, never used twice. What is kept in the worker (`keeps`) is known by this number.
        label: Names the call in errors.
        seconds: Deadline; None for none.
        flag: What sets the deadline.
        now: The run's clock of deadlines when the message was sent.
        env: Number of the environment that the call is made for; None for one that is still to be made.
        keeps: Whether the result stays in the worker.
        content: Pickle of the function, its arguments and keyword arguments (`dump_call`).
    """

    number: int
    label: str
    seconds: float | None
    flag: str
    now: float
    env: int | None
    keeps: bool
    content: bytes


class Answer(NamedTuple):
    """The answer to a call: `content` is a pickle of the result, or of the error (`rl.rollout.workers.errors`).

    `is_kept` says that the result stays in the worker, and `is_blocking` that the call was made in a thread of its own.
    """

    number: int
    is_error: bool
    is_kept: bool
    is_blocking: bool
    content: bytes


class Drop(NamedTuple):
    """Forget what is kept under some numbers. Of environments among it, `closes` says whether to close them."""

    numbers: tuple[int, ...]
    closes: bool = False


class Reference:
    """Something that is kept in a worker under a number. In a message it stands for that thing."""

    number: int


def call_method(target: Any, path: str, *args: Any, **kwargs: Any) -> Any:
    """Call the method of `target` at `path`, such as "unwrapped.snapshot"."""
    return attrgetter(path)(target)(*args, **kwargs)


class _Pickler(pickle.Pickler):
    """Writes a `Reference` as its number."""

    def persistent_id(self, obj: Any) -> int | None:
        return obj.number if isinstance(obj, Reference) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, resolve: Callable[[int], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._resolve = resolve

    def persistent_load(self, pid: Any) -> Any:
        return self._resolve(pid)


def dump_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return the content of a `Call`. Raises whatever pickle raises for what cannot be sent."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump((function, args, kwargs))
    return buffer.getvalue()


def load_call(
    content: bytes, resolve: Callable[[int], Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return function, arguments and keyword arguments of a `Call`; `resolve` returns what a number stands for."""
    return _Unpickler(content, resolve).load()
