"""An `Engine` over several engines, each in a process of its own, which may die without changing a reply.

Draws depend on seed and position alone, so a reply that is lost with its engine is asked for again, of another engine
or of the one that is started in its place, and has the same tokens under the same weights.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from itertools import count as count_from

import torch
from torch import nn

from agents.images import PlacedImage
from rl.policy.engine import Engine, EngineDead
from rl.policy.pool.devices import visible_devices
from rl.policy.pool.messages import EngineOptions, Sample, Start, Weights
from rl.policy.pool.model_copy import dump_structure
from rl.policy.pool.process import EngineGone, EngineProcess, PoolEvents
from rl.policy.pool.routing import Router
from rl.policy.pool.weight_files import WeightFiles
from rl.processes.host import LOCAL, Host, Place
from rl.processes.timeout import answer_timeout_s
from rl.records import Completion, SamplingParams

MAX_RESTARTS = 3  # of an engine's process in a row, without a reply in between
LONGEST_BEAT_S = 1.0

log = logging.getLogger(__name__)


class EnginePool(Engine, PoolEvents):
    """Engines for one run. They run freely: none waits for another one, nor for the run.

    New weights are written into one file; every engine loads it before the first request that is sent after them. A
    reply belongs to the weights that it was asked of, or to later ones.
    """

    def __init__(
        self,
        model: nn.Module,
        options: EngineOptions,
        count: int,
        *,
        devices: Sequence[str] = (),
        threads: int = 0,
        host: Host = LOCAL,
    ) -> None:
        """Start `count` engines and wait until all are ready; not to be called while an event loop runs.

        Args:
            model: A Hugging Face causal language model. Those of its weights that require a gradient are the trained
                ones.
            options: What each engine opens with.
            count: Number of engines.
            devices: CUDA devices of each, such as `0` or `2,3`; empty for the model's.
            threads: CPU threads of each; 0 for its share of this process's.
            host: Where they are started. One that is far gives each engine a GPU of its own, if the model is on one.

        Raises:
            ValueError: The model cannot be sent, an engine cannot sample it, or the engines do not start.
        """
        self.model, self.options = model, options
        self.slots, self.context = options.slots, options.context or 0
        self.timeout_s = answer_timeout_s()
        self.num_restarts = self.num_repeats = 0  # processes started anew, replies asked for again
        self._host = host
        self._run = secrets.token_hex(8)
        self._incarnations, self._numbers = count_from(1), count_from(1)
        self._devices = list(devices) or [""] * count
        self._threads = threads or max(1, torch.get_num_threads() // count)
        self._version = self._weights_number = 0
        self._structure, self._signature = dump_structure(model), _signature(model)
        self._router = Router(count)
        self._deaths = [0] * count  # of an engine's processes since its last reply
        self._engines: list[EngineProcess] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._change: asyncio.Event | None = None  # set when an engine has become ready, or the pool has failed
        self._is_closed, self._had_start = False, False
        self._num_tokens = [0] * count  # sampled by each since `metrics`
        self._metrics_before = (0, 0)
        self._files = WeightFiles(model)
        try:
            self._files.write_trained(0)
            self._engines = [self._start(index) for index in range(count)]
            asyncio.run(self._until_ready())
        except EngineDead as error:
            self.close()
            raise ValueError(f"--engines {count}: {error}") from None
        except BaseException:
            self.close()
            raise
        self._had_start = True
        first = self._engines[0].ready
        assert first is not None
        self.slots, self.context = count * first.slots, first.context
        where = " on the cluster" * host.is_far
        self.description = f"{count} engines, each in a process of its own{where}"
        self.description += f": {first.description}" * bool(first.description)

    @property
    def version(self) -> int:  # type: ignore[override]
        """See `Policy`."""
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self._version = version
        for engine in self._engines:
            engine.relabel(version)

    @property
    def pids(self) -> list[int]:
        """Process ids of the engines."""
        return [engine.pid for engine in self._engines]

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        session: str = "",
        resume_from: Completion | None = None,
        images: Sequence[PlacedImage] = (),
    ) -> Completion:
        """Sample one reply; arguments, result and errors are as `Policy.sample` says.

        An engine that is gone has no part in the result: the reply is asked for again.
        """
        self._serve(asyncio.get_running_loop())
        while True:
            engines, number = await self._ready_engines(), next(self._numbers)
            episode = session or f"?{number}"  # without a name, each request is an episode of its own
            engine = self._engines[self._router.choose(episode, engines)]
            message = Sample(number, tuple(prompt), params, session, resume_from, tuple(images))
            try:
                return await engine.sample(message)
            except EngineGone:
                self.num_repeats += 1
            finally:
                if not session:
                    self._router.release(episode)

    def release(self, session: str) -> None:
        """See `Policy`."""
        if (index := self._router.release(session)) is not None:
            self._engines[index].release(session)

    def sync_weights(self) -> None:
        """Let every engine take over the model's weights before its next request, and increase `version`.

        Raises `EngineDead` if they cannot be written and `on_failure` is None; else sets `failure` and calls it.
        """
        self._version += 1
        self._weights_number += 1
        try:
            self._files.write_trained(self._weights_number)
        except OSError as error:
            self._fail(f"the weights cannot be written into {self._files.folder}: {error.strerror or error}")
            if self.on_failure is None and self.failure is not None:
                raise self.failure from error
            return
        if (signature := _signature(self.model)) != self._signature:  # adapters were added or removed
            self._structure, self._signature = dump_structure(self.model), signature
            self._start_all_anew()
            return
        for engine in self._engines:
            engine.load(self._weights(engine.origin, with_frozen=False))

    def metrics(self) -> dict[str, float]:
        """Return metrics since the last call: restarts, repeated replies, and how unevenly engines were used."""
        tokens, self._num_tokens = self._num_tokens, [0] * len(self._num_tokens)
        (restarts, repeats), self._metrics_before = self._metrics_before, (self.num_restarts, self.num_repeats)
        return {
            "engines/restarts": float(self.num_restarts - restarts),
            "engines/repeats": float(self.num_repeats - repeats),
            "engines/busiest": max(tokens) * len(tokens) / sum(tokens) if any(tokens) else 1.0,
        }

    def close(self) -> None:
        """End all processes and delete the files."""
        self._is_closed = True
        for engine in self._engines:
            engine.hang_up()
        for engine in self._engines:
            engine.close()
        self._files.close()

    def on_ready(self, process: EngineProcess) -> None:
        """See `PoolEvents`."""
        self._notify()

    def on_loaded(self, process: EngineProcess, number: int) -> None:
        """See `PoolEvents`."""
        self._files.forget(process.origin, number)

    def on_tokens(self, process: EngineProcess, number: int) -> None:
        """See `PoolEvents`."""
        index = self._engines.index(process)
        self._deaths[index] = 0
        self._num_tokens[index] += number

    def on_end(self, process: EngineProcess) -> None:
        """Start another process in place of one that has ended, unless that happens again and again."""
        if self._is_closed or process not in self._engines:
            return
        self._files.forget(process.origin, self._weights_number)
        index = self._engines.index(process)
        self._deaths[index] += 1
        if process.refusal and not self._had_start:
            self._fail(process.refusal)
        elif self._deaths[index] > MAX_RESTARTS:
            self._fail(f"{process.end}; {MAX_RESTARTS} restarts in a row gave no reply")
        elif self.failure is None:
            self.num_restarts += 1
            log.warning("%s; starting another one (%d of %d)", process.end, self._deaths[index], MAX_RESTARTS)
            try:
                self._replace(index)
            except OSError as error:  # no memory for a process, or no room for the weights
                self._fail(f"{process.end}; no other one can be started: {error.strerror or error}")

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve an event loop, if that is another one than the last."""
        if self._loop is not loop:
            self._loop, self._change = loop, asyncio.Event()
        for engine in self._engines:
            engine.attach(loop)

    async def _ready_engines(self) -> list[int]:
        """Wait until an engine is ready; return those that are. Raises `EngineDead` for a pool that has failed.

        With `on_failure` set the wait for a failed pool does not end.
        """
        while True:
            if self.failure is not None and self.on_failure is None:
                raise self.failure
            ready = [index for index, engine in enumerate(self._engines) if engine.ready and not engine.end]
            if ready and self.failure is None:
                return ready
            assert self._change is not None
            self._change.clear()
            await self._change.wait()

    async def _until_ready(self) -> None:
        self._serve(asyncio.get_running_loop())
        while any(engine.ready is None for engine in self._engines):
            if self.failure is not None:
                raise self.failure
            assert self._change is not None
            self._change.clear()
            await self._change.wait()
            await asyncio.sleep(0)

    def _start(self, index: int) -> EngineProcess:
        origin = self._run, next(self._incarnations)
        options = self.options._replace(devices="")
        environment = {"OMP_NUM_THREADS": str(self._threads)}
        if devices := self._devices[index]:
            environment["CUDA_VISIBLE_DEVICES"] = visible_devices(devices)
            is_split = "," in devices  # which only vLLM can, in a process of its own
            numbers = ",".join(map(str, range(devices.count(",") + 1)))
            options = options._replace(device="cuda:0", devices=numbers if is_split else "")
        gpus = int(self._host.is_far and options.device != "cpu")
        if gpus:
            options = options._replace(device="cuda:0")  # it sees no other
        weights = self._weights(origin, with_frozen=True)
        beat_s = min(LONGEST_BEAT_S, self.timeout_s / 5)
        start = Start(origin, self._structure, weights, options, beat_s)
        return EngineProcess(
            f"engine {index + 1}",
            start,
            timeout_s=self.timeout_s,
            home=self._host.home(str(self._files.folder)),
            environment=environment,
            pool=self,
            place=Place(self._host, gpus, 2 * self._files.size),
        )

    def _replace(self, index: int) -> None:
        """Start a process in place of one, beside the run."""
        self._engines[index] = self._start(index)
        if self._loop is not None and not self._loop.is_closed():
            self._engines[index].attach(self._loop)

    def _start_all_anew(self) -> None:
        old, self._engines = self._engines, []
        for engine in old:
            self._files.forget(engine.origin, self._weights_number)
            engine.hang_up()
        self._engines = [self._start(index) for index in range(len(old))]
        for engine in old:
            engine.close()

    def _weights(self, origin: tuple[str, int], *, with_frozen: bool) -> Weights:
        paths = self._files.paths(origin, self._weights_number, with_frozen=with_frozen)
        return Weights(self._weights_number, self._version, paths)

    def _fail(self, reason: str) -> None:
        """Note that the pool can no longer sample."""
        if self.failure is None:
            self.failure = EngineDead(reason)
        self._notify()
        if self.on_failure is not None:
            self.on_failure()

    def _notify(self) -> None:
        with suppress(RuntimeError):  # a loop that is gone
            if self._change is not None:
                self._change.set()


def _signature(model: nn.Module) -> tuple[tuple[str, bool], ...]:
    """The names of a model's parameters, and which are trained."""
    return tuple((name, weight.requires_grad) for name, weight in model.named_parameters())
