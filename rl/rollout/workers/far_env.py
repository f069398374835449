"""An environment in a worker process, which survives the death of that process.

A `FarEnv` has the methods of the environment. On the event loop they are called by `Runner.call`, which awaits them;
from another thread, as wrappers do, they are called as they are. Every call of an episode is recorded with its answer.
If the process dies, the environment is made anew and given the same calls, which it must answer alike, and then the
call whose answer was lost.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium

from envs.watchdog import WATCHDOG, Clock, Overrun
from rl.rollout.timeouts import Hang
from rl.rollout.workers.errors import ReplayDiverged, WorkerDied, load_error
from rl.rollout.workers.messages import Reference, call_method, dump_call
from rl.rollout.workers.process import WorkerLost
from rl.rollout.workers.same_tasks import OtherTasks

if TYPE_CHECKING:
    from rl.rollout.workers.pool import Worker

STEP_FLAG = "--step-seconds"
MAX_DEATHS = 2  # of a process during the same call, after which the call has failed
END = "\0the iterator has ended"  # a text, because another sentinel would be another object in another process


class Maker(NamedTuple):
    """How environments are made in workers: the function that makes one, and the `spec` and class of what it makes."""

    make: Callable[[], Any]
    spec: Any
    env_class: type

    @property
    def name(self) -> str:
        """The environment's id, or else the name of its class."""
        return self.spec.id if self.spec else self.env_class.__name__


class Request(NamedTuple):
    """A call to make in a worker.

    Attributes:
        function: Function of things that are there, or of things that can be sent there; so are `args` and `kwargs`.
        label: Names the call in errors.
        seconds: Its deadline; None for none.
        clock: The run's clock of deadlines.
        keeps: Whether the result stays in the worker whatever it is; an iterator does anyway.
        begins: Whether an episode begins with it, so that nothing before it has to be repeated.
        is_recorded: Whether it has to be repeated in a new process.
        ends: Whether the environment is forgotten after it, however it ends.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    label: str
    seconds: float | None
    clock: Clock
    keeps: bool = False
    begins: bool = False
    is_recorded: bool = True
    ends: bool = False


class FarMethod:
    """A method of something in a worker, named by its path, such as "unwrapped.snapshot"."""

    def __init__(self, env: FarEnv, target: Reference, path: str) -> None:
        self.env, self.target, self.path = env, target, path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it from a thread, not the event loop's, and wait for its result."""
        return self.env.call_from_thread(self, args, kwargs, self.path.rpartition(".")[2])


class FarObject(Reference):
    """Something that belongs to a far environment and stays in its worker, such as the iterator of an oracle."""

    def __init__(self, env: FarEnv, number: int) -> None:
        self.env, self.number = env, number

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Return the next item of an iterator, from a thread that is not the event loop's."""
        item = self.env.call_from_thread(next, (self, END), {}, "next reply of a script")
        if item == END:
            raise StopIteration
        return item

    def __getattr__(self, name: str) -> FarMethod:
        """Return a method of it."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no method {name!r}")
        return FarMethod(self.env, self, name)


class FarEnv(gymnasium.Env, Reference):
    """An environment that is made and played in a worker.

    Attributes:
        env_class: Class of the environment.
        number: What its worker knows it by.
    """

    is_far = True
    blocking = True  # so that a wrapper around it is called in a thread, where it may wait for it

    def __init__(self, worker: Worker, maker: Maker) -> None:
        self.worker, self.maker, self.number = worker, maker, -1
        self.spec, self.env_class = maker.spec, maker.env_class
        self.reset = FarMethod(self, self, "reset")  # type: ignore[assignment]
        self.step = FarMethod(self, self, "step")  # type: ignore[assignment]
        self.close = FarMethod(self, self, "close")  # type: ignore[method-assign]
        self._incarnation = 0  # of the worker's process that holds the environment
        self._is_blocking = True
        self._log: list[tuple[Request, Any]] = []  # calls since the episode began, with their answers
        self._is_dropped = False
        worker.num_envs += 1

    def __getattr__(self, name: str) -> FarMethod:
        """Return another method of the innermost environment, such as `snapshot`."""
        if name.startswith("_") or not callable(getattr(self.__dict__.get("env_class"), name, None)):
            raise AttributeError(f"{type(self).__name__} has no method {name!r}")
        return FarMethod(self, self, f"unwrapped.{name}")

    @property
    def unwrapped(self) -> FarEnv:  # type: ignore[override]
        """The environment itself."""
        return self

    def drop(self, *, closes: bool = True) -> None:
        """Let the worker forget the environment; with `closes` it closes it before, in a thread."""
        if not self._is_dropped:
            self._is_dropped = True
            self.worker.num_envs -= 1
            self._forget_log()
            self.worker.drop(self.number, self._incarnation, closes=closes)

    async def perform(self, request: Request) -> Any:
        """Make a call in the worker, whatever happens to its process, and return its result.

        Raises what the call raises, `Overrun` if it takes too long, `WorkerDied` if the process dies during it again,
        and `rl.rollout.timeouts.Hang` if the worker's processes do nothing but die.
        """
        if not request.ends:
            return await self._perform(request)
        try:
            return await self._perform(request) if self._incarnation else None
        finally:
            self.drop(closes=False)

    async def _perform(self, request: Request) -> Any:
        deaths = 0
        while True:
            async with self.worker.turn(alone=deaths > 0):
                try:
                    await self._be_there(request.clock)
                    if request.begins:
                        self._forget_log()
                    result = await self._send(request)
                    break
                except WorkerLost as lost:
                    if lost.overrun_s is not None:
                        text = f"{request.label} took longer than {request.seconds:g} s ({STEP_FLAG})"
                        raise Overrun(text, lost.overrun_s) from None
                    deaths += lost.is_suspect
                    if deaths >= MAX_DEATHS:
                        raise WorkerDied(f"{request.label}: {lost}, for the second time") from None
        if request.is_recorded:
            self._log.append((request, result))
            if not request.begins:
                self.worker.note_step()
        return result

    def call_from_thread(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], what: str
    ) -> Any:
        """Make a call and wait for its result, on a thread that is not the event loop's."""
        loop = self.worker.loop
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is loop:
                loop = None
        if loop is None or not loop.is_running():
            raise RuntimeError(f"{self.maker.name} is in a worker: call its methods by Runner.call or from a thread")
        label = f"{self.maker.name}: {what}"
        request = far_request(self, label, WATCHDOG.budgets.step, WATCHDOG.clock, function, args, kwargs)
        assert request is not None
        return asyncio.run_coroutine_threadsafe(self.perform(request), loop).result()

    async def _be_there(self, clock: Clock) -> None:
        """Make the environment in the worker's process if it is not there, and bring it to where it was.

        Raises `rl.rollout.timeouts.Hang` if it has other tasks there.
        """
        incarnation = self.worker.ensure_process()
        if self._incarnation == incarnation:
            return
        make = Request(self.maker.make, (), {}, f"{self.maker.name}: its constructor", None, clock, keeps=True)
        try:
            self.number, self._is_blocking = await self._send(make, makes=True)
        except OtherTasks as error:  # of all environments in this worker, so that no retry helps
            raise Hang(f"{self.maker.name} in {self.worker.name}: {error}") from None
        self._incarnation = incarnation
        for request, answer in self._log:
            again = await self._send(request, into=answer)
            if not isinstance(answer, FarObject) and not is_alike(answer, again):
                raise ReplayDiverged(f"{request.label}: it answers otherwise than before its worker died")

    async def _send(self, request: Request, *, makes: bool = False, into: Any = None) -> Any:
        """Send a call to the process; what stays there is a `FarObject`, `into` if that is one."""
        content = dump_call(request.function, request.args, request.kwargs)
        number = None if makes else self.number
        waits = makes or not self._is_blocking
        answer = await self.worker.call(request, number, content, waits=waits)
        if answer.is_error:
            raise load_error(answer.content)
        if makes:
            return answer.number, pickle.loads(answer.content)
        self._is_blocking = answer.is_blocking  # which may change with the task
        if not answer.is_kept:
            return pickle.loads(answer.content)
        if isinstance(into, FarObject):
            into.number = answer.number
            return into
        return FarObject(self, answer.number)

    def _forget_log(self) -> None:
        for _, answer in self._log:
            if isinstance(answer, FarObject):
                self.worker.drop(answer.number, self._incarnation)
        self._log = []


def is_far(env: Any) -> bool:
    """Whether an environment, or what is within its wrappers, is in a worker."""
    return getattr(env.unwrapped, "is_far", False)


def far_request(
    env: Any,
    label: str,
    seconds: float | None,
    clock: Clock,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Request | None:
    """Return the request of a call for `env`; None if it is to be made in this process.

    Made in the worker are methods of what is there, and functions of it that can be sent there: a class, which stays
    there, a script. Not made there is what has a state here, such as the methods of a wrapper, and what cannot be sent.
    """
    if not is_far(env):
        return None
    inner: Any = function
    while isinstance(inner, partial):
        inner, args, kwargs = inner.func, (*inner.args, *args), {**inner.keywords, **kwargs}
    function = inner
    if isinstance(function, FarMethod):
        is_reset = function.path == "reset" and function.target is function.env
        is_close, is_snapshot = function.path == "close", function.path == "unwrapped.snapshot"
        flags = {"begins": is_reset, "is_recorded": not (is_close or is_snapshot), "ends": is_close}
        path_args = (function.target, function.path, *args)
        return Request(call_method, path_args, kwargs, label, seconds, clock, **flags)
    if isinstance(function, MethodType) or not any(isinstance(arg, Reference) for arg in (*args, *kwargs.values())):
        return None
    try:
        dump_call(function, args, kwargs)
    except Exception:  # a function without a name, or an argument that cannot be sent
        return None
    is_class = isinstance(function, type)
    return Request(function, args, kwargs, label, seconds, clock, keeps=is_class, begins=is_class)


def is_alike(answer: Any, again: Any) -> bool:
    """Whether an environment answers a repeated call as it did: messages, reward and end, whatever its info says."""
    with suppress(Exception):  # whatever cannot be compared
        if isinstance(answer, dict) and isinstance(again, dict):
            return answer.keys() == again.keys() and all(is_alike(answer[key], again[key]) for key in answer)
        if isinstance(answer, tuple) and isinstance(again, tuple) and answer and isinstance(answer[-1], dict):
            return bool(answer[:-1] == again[:-1])
        return bool(answer == again)
    return True
