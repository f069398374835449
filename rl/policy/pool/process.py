"""The process of one engine as its run sees it: its start, its replies, its weights, and when it counts as gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from rl.policy.pool.messages import (
    Beat,
    Broken,
    Cancel,
    Dismissal,
    Load,
    Loaded,
    Origin,
    Ready,
    Refusal,
    Relabel,
    Release,
    Reply,
    Sample,
    Start,
    Weights,
)
from rl.processes.child import TICK_S, ChildProcess
from rl.processes.host import Place
from rl.processes.timeout import TIMEOUT_VARIABLE
from rl.records import Completion


class EngineGone(Exception):
    """The process ended, or was ended, before it had answered a request."""


class EngineProcess(ChildProcess):
    """The process of an engine. What it says under another name than its own is refused, and so are wrong versions.

    Attributes:
        ready: What it said about itself once it had started; None before.
        refusal: Why it will not start, whoever tries; "" for none.
    """

    limit_note = f" ({TIMEOUT_VARIABLE})"

    def __init__(
        self,
        name: str,
        start: Start,
        *,
        timeout_s: float,
        home: str,
        environment: Mapping[str, str],
        pool: PoolEvents,
        place: Place,
    ) -> None:
        """Start the process. One that has something to say and says nothing for `timeout_s` seconds is killed.

        `home` is a folder that it deletes when the run is gone; `environment` and `place` are as of `ChildProcess`.
        """
        self.origin: Origin = start.origin
        self.ready: Ready | None = None
        self.refusal = ""
        self._timeout_s, self._pool = timeout_s, pool
        self._newest = self._last_load = start.weights.number
        self._lowest_version = self._version = start.weights.version
        self._requests: dict[int, _Request] = {}
        self._last_look = time.monotonic()
        self._sent_files: dict[int, tuple[str, ...]] = {}  # by the number of their weights
        super().__init__(name, "rl.policy.pool.server", home, environment=environment, place=place)
        self.send(start._replace(weights=self._with_files(start.weights)))

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve this event loop, on which the process's messages are heard from now on."""
        if not self.end and self._loop is not loop:
            self._attach(loop)
            self._flush()
            self._expect()

    async def sample(self, request: Sample) -> Completion:
        """Return the reply to a request. Raises `EngineGone`, or what the engine refuses the request with."""
        if self.end:
            raise EngineGone(self.end)
        future = asyncio.get_running_loop().create_future()
        self._requests[request.number] = _Request(request, future, self._version)
        self.send(request)
        self._expect()
        try:
            return await future
        except asyncio.CancelledError:
            self.send(Cancel(request.number))
            raise
        finally:
            self._requests.pop(request.number, None)

    def load(self, weights: Weights) -> None:
        """Let it take over weights before its next request."""
        self._newest, self._version = weights.number, weights.version
        self.send(Load(self._with_files(weights)))
        self._expect()

    def relabel(self, version: int) -> None:
        """Let its weights be those of a version."""
        self._version = version
        self.send(Relabel(version))

    def release(self, session: str) -> None:
        """Let it forget a session."""
        self.send(Release(session))

    def hang_up(self) -> None:
        """See `ChildProcess`."""
        self.send(Dismissal())
        super().hang_up()

    def kill(self, reason: str) -> None:
        """End the process for a reason, at once."""
        if not self.end:
            self._last_line = reason
            self._popen.kill()
            self._end()

    def _with_files(self, weights: Weights) -> Weights:
        """Let it have the files of weights; return the weights with their paths there."""
        if self.end:
            return weights
        paths = self._sent_files[weights.number] = tuple(map(self._popen.send_file, weights.paths))
        return weights._replace(paths=paths)

    def _drop_files(self, number: int) -> None:
        """Let it forget the files of weights up to a number, which it has loaded."""
        for old in [one for one in self._sent_files if one <= number]:
            for path in self._sent_files.pop(old):
                self._popen.drop_file(path)

    def _expect(self) -> None:
        """Begin to count its silence."""
        if not self._ticks:
            self._silence_start = self._last_look = time.monotonic()
        self._start_ticks()

    def _is_expected(self) -> bool:
        """See `ChildProcess`. Time in which the run itself did nothing, because it was stopped or busy, is left out."""
        now = time.monotonic()
        self._silence_start += max(0.0, now - self._last_look - 2 * TICK_S)
        self._last_look = now
        return self.ready is None or self._last_load < self._newest or bool(self._requests)

    def _max_silence_s(self) -> float:
        """See `ChildProcess`."""
        return self._timeout_s

    def _on_new_loop(self) -> None:
        """See `ChildProcess`."""
        for request in self._requests.values():  # of a loop that is gone
            self.send(Cancel(request.message.number))
        self._requests.clear()

    def _on_message(self, message: Any) -> None:
        """See `ChildProcess`."""
        if message.origin != self.origin or self.end:
            return
        match message:
            case Ready():
                self.ready = message
                self._drop_files(message.weights)
                self._pool.on_loaded(self, message.weights)
                self._pool.on_ready(self)
            case Loaded():
                self._last_load = message.weights
                self._drop_files(message.weights)
                self._pool.on_loaded(self, message.weights)
            case Reply():
                self._take(message)
            case Refusal():
                self._answer(message.number, error=(ValueError if message.is_invalid else RuntimeError)(message.text))
            case Broken():
                self.refusal = message.text if message.is_refused else ""
                self.kill(message.text)
            case Beat():
                pass

    def _on_end(self, code: int, *, is_late: bool) -> None:
        """Fail all requests, and tell the pool."""
        if (self._popen.fault and not self._popen.is_up) or self._popen.is_refused:
            self.refusal = self.end
        for number in list(self._requests):
            self._answer(number, error=EngineGone(self.end))
        self._pool.on_end(self)

    def _take(self, reply: Reply) -> None:
        """Take a reply, unless other weights have sampled it than those it was asked of, or later ones."""
        request = self._requests.get(reply.number)
        if request is None or request.future.done():
            return  # nobody waits for it any more
        resume_from = request.message.resume_from
        versions = reply.completion.versions[len(resume_from.ids) if resume_from else 0 :]
        if not all(request.version <= version <= self._version for version in versions):
            text = f"sampled with version {min(versions)} to {max(versions)} what was asked of {request.version}"
            self.kill(f"{text} to {self._version}")
            return
        self._answer(reply.number, completion=reply.completion)
        self._pool.on_tokens(self, len(versions))

    def _answer(self, number: int, completion: Completion | None = None, error: Exception | None = None) -> None:
        request = self._requests.pop(number, None)
        if request is None or request.future.done():
            return
        if error is not None:
            request.future.set_exception(error)
        else:
            assert completion is not None
            request.future.set_result(completion)


class _Request:
    """A request without an answer, and the version of the weights that it was asked of."""

    def __init__(self, message: Sample, future: asyncio.Future[Completion], version: int) -> None:
        self.message, self.future, self.version = message, future, version


class PoolEvents:
    """What a pool wants to know of its engines' processes."""

    on_ready: Callable[[EngineProcess], None]
    on_loaded: Callable[[EngineProcess, int], None]
    on_tokens: Callable[[EngineProcess, int], None]
    on_end: Callable[[EngineProcess], None]
