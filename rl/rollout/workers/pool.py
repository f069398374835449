"""Workers of a run: their processes, which are started when they are needed, and who gets the next environment."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import gymnasium

from envs.exits import call_contained, close_env, error_text
from rl.processes.host import LOCAL, Host, open_host
from rl.rollout.timeouts import Hang
from rl.rollout.workers.far_env import FarEnv, Maker, Request
from rl.rollout.workers.messages import Answer, Call, Drop
from rl.rollout.workers.process import WorkerProcess
from rl.rollout.workers.same_tasks import SameTasks, tasks_digest

MAX_RESTARTS = 3  # of a worker's process without a step in between
MAX_WORKERS = 1024


class Worker:
    """One worker: a process, and its successor when it dies.

    Attributes:
        num_envs: Number of environments that are in it.
    """

    def __init__(self, name: str, host: Host) -> None:
        self.name, self.num_envs, self._host = name, 0, host
        self.loop: asyncio.AbstractEventLoop | None = None  # that called it last
        self.process: WorkerProcess | None = None
        self._numbers = count(1)
        self._incarnation = self._num_restarts = 0
        self._num_turns = 0  # under way
        self._alone: asyncio.Future[None] | None = None  # done when the call that is alone has ended
        self._quiet: asyncio.Future[None] | None = None  # done when no turn is under way

    def ensure_process(self) -> int:
        """Start a process if there is none, or the last one has ended. Returns how many there have been.

        Raises `Hang` after `MAX_RESTARTS` without a step in between, and where none can be started.
        """
        if self.process is None or self.process.end:
            if self.process is not None:
                self._num_restarts += 1
                if self.process.is_refused:
                    raise Hang(self.process.end)
                if self._num_restarts > MAX_RESTARTS:
                    raise Hang(f"{self.process.end}; it was started {MAX_RESTARTS} times more without a step since")
            self.process = WorkerProcess(self.name, self._host)
            self._incarnation += 1
        return self._incarnation

    def note_step(self) -> None:
        """Note that an environment has been stepped, so that the worker is of some use."""
        self._num_restarts = 0

    @asynccontextmanager
    async def turn(self, *, alone: bool) -> AsyncIterator[None]:
        """Context of the calls of an environment; with `alone`, of the only ones that are made meanwhile.

        What was being called when a process died is called again alone, so that a second death tells whose fault it is.
        """
        while self._alone is not None:
            await asyncio.shield(self._alone)
        if alone:
            self._alone = asyncio.get_running_loop().create_future()
        try:
            while alone and self._num_turns:
                self._quiet = asyncio.get_running_loop().create_future()
                await self._quiet
            self._num_turns += 1
            try:
                yield
            finally:
                self._num_turns -= 1
                if not self._num_turns and self._quiet is not None and not self._quiet.done():
                    self._quiet.set_result(None)
        finally:
            if alone and self._alone is not None:
                self._alone.set_result(None)
                self._alone = None

    async def call(self, request: Request, env: int | None, content: bytes, *, waits: bool) -> Answer:
        """Make a call for the environment number `env`, None for its constructor; see `WorkerProcess.call`."""
        assert self.process is not None
        self.loop = asyncio.get_running_loop()
        label, seconds, now = request.label, request.seconds, request.clock.now()
        flag = "--step-seconds"
        call = Call(next(self._numbers), label, seconds, flag, now, env, request.keeps, content)
        return await self.process.call(call, waits=waits)

    def drop(self, number: int, incarnation: int, *, closes: bool = False) -> None:
        """Let the process forget what it keeps under a number, if it is the one that does."""
        if self.process is not None and incarnation == self._incarnation:
            self.process.send(Drop((number,), closes))


class Workers:
    """The workers of a run. A new environment is put where there are fewest."""

    def __init__(self, number: int, host: Host = LOCAL) -> None:
        self.workers: Sequence[Worker] = [Worker(f"worker {index + 1}", host) for index in range(number)]
        self._is_far = host.is_far
        self._makers: dict[bytes, Maker] = {}

    @classmethod
    def open(cls, number: int, cluster: str = "") -> Workers | None:
        """Return so many workers, whose processes begin when they are needed; None for 0, without any.

        They are on the nodes of a cluster, to which the run has connected, or on this machine for "".
        """
        return cls(number, open_host(cluster)) if number else None

    def description(self) -> str:
        """Return a line for the start of a run."""
        number = len(self.workers)
        where = "on the cluster" if self._is_far else "beside this one"
        return f"environments are in {number} process{'es' if number > 1 else ''} {where}"

    def far(self, make_env: Callable[[], gymnasium.Env], split: str = "") -> Callable[[], gymnasium.Env]:
        """Return a function that makes the environments of `make_env` in workers.

        One is made here to learn its class, and closed. With `split`, a worker where they have other tasks in this
        split than here ends the run (`rl.rollout.timeouts.Hang`). Raises `ValueError` for a function that cannot be
        sent to another process.
        """
        try:
            key = pickle.dumps((make_env, split))
        except Exception as error:
            raise ValueError(f"--workers: what makes the environment cannot be sent: {error_text(error)}") from None
        if key not in self._makers:
            env = call_contained(make_env)
            try:
                make = SameTasks(make_env, split, tasks_digest(env, split)) if split else make_env
                self._makers[key] = Maker(make, env.spec, type(env.unwrapped))
            finally:
                close_env(env)
        return lambda: self._make(self._makers[key])

    def close(self) -> None:
        """End all processes, and with them their environments."""
        processes = [worker.process for worker in self.workers if worker.process is not None]
        for process in processes:
            process.hang_up()
        for process in processes:
            process.close()

    def _make(self, maker: Maker) -> Any:
        return FarEnv(min(self.workers, key=lambda worker: worker.num_envs), maker)
