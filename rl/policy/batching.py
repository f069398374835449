"""Continuous batching on the event loop's own thread: what every sampling engine does with the requests it is given.

Many coroutines call `sample`; a driver task lets every runnable coroutine reach its next `sample`, then computes one
token for all live requests, and so on. With environments that answer at once this makes a run a pure function of its
seed, because no thread decides who is batched with whom.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from torch import nn

from rl.policy.forward import longest, text_config
from rl.policy.request import Request, natural
from rl.records import Completion, SamplingParams

PATIENCE = 4  # rounds of the loop from a reply that ended to the next request of whoever read it


class EngineDead(RuntimeError):
    """What computes has failed in a way that it does not recover from."""


class Drawn(NamedTuple):
    """A token for a request, with its log-probability under what was sampled and under the model."""

    request: Request
    token: int
    behaviour: float
    model: float


class Batching:
    """A `Policy` over a model in this process, for one event loop at a time, but for the computing, which `_step` does.

    `context` bounds the tokens of one sequence (default: what the model can do), `slots` the requests that are computed
    at the same time. `words` tell a user what was started; `stats` count what was computed since.

    An engine whose `death` is set is of no use any more. Then `on_death` is called, and whoever waits goes on waiting,
    to be cancelled and resumed another day; without it they are told.
    """

    slots: int
    words: str = ""
    death: EngineDead | None = None
    on_death: Callable[[], None] | None = None

    def __init__(self, model: nn.Module, context: int | None = None) -> None:
        """Raise `ValueError` for a `context` that the model does not have."""
        limit = longest(model)
        if context is not None and not 1 < context <= limit:
            kind = text_config(model).model_type
            raise ValueError(f"a context of {context} tokens; this {kind} model computes 2 to {limit} exactly")
        self.model: Any = model
        self.version = 0
        self.context = limit if context is None else context
        self.stats = {"steps": 0, "sampled": 0, "fed": 0, "seconds": 0.0}
        self._waiting: deque[Request] = deque()
        self._live: list[Request] = []
        self._ended: list[Request] = []  # in the last step; their callers have not seen it yet
        self._news = 0  # counts requests and new weights
        self._patience = PATIENCE  # rounds of the loop without news before the next step
        self._driver: asyncio.Task[None] | None = None

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", received: Completion | None = None
    ) -> Completion:
        """See `Policy.sample`. An empty prompt, or one without room for a token, raises `ValueError`."""
        if not 0 < len(prompt) < self.context:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens; a context of {self.context} has room for 1 to {self.context - 1}"
            )
        loop = asyncio.get_running_loop()
        request = Request.of(prompt, params, session, received, loop.create_future())
        if finish := request.finish(self.context):
            return request.completion(finish)
        self._start(loop)
        self._waiting.append(request)
        self._news += 1
        return await request.future

    def partial(self, session: str) -> Completion | None:
        """What a request of `session` has drawn so far, for a checkpoint; None when it has none.

        Its `finish` is "abort" unless the reply is complete and merely not picked up yet.
        """
        for request in (*self._live, *self._waiting):
            if request.session == session and not request.future.done():
                return request.completion("abort")
        for request in self._ended:
            if request.session == session and not request.future.cancelled() and not request.future.exception():
                return request.future.result()
        return None

    def refresh(self) -> None:
        """Sample from the model's present weights from the next token on; to be called on the event loop's thread."""
        raise NotImplementedError

    def rest(self) -> None:
        """Give memory back until `refresh`, before which nothing is sampled; where that is of use."""

    def release(self, session: str) -> None:
        """Forget what is kept for a finished episode."""
        self._ended = [request for request in self._ended if request.session != session]

    def close(self) -> None:
        """Give back what the engine holds; nothing can be sampled any more."""

    def _step(self) -> bool:
        """Draw tokens for live and waiting requests; True when at least one request ended."""
        raise NotImplementedError

    def _leave(self, request: Request) -> None:
        """A live request has ended, or its caller has gone."""

    def _reset(self) -> None:
        """After a failure, nothing that the engine keeps can be relied on."""

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that a driver runs in `loop`."""
        if self._driver is not None and self._driver.get_loop() is not loop:
            self._forget_all()  # whoever waited in that loop is gone with it
            self._driver = None
        if self._driver is None or self._driver.done():
            self._driver = loop.create_task(self._drive())

    async def _drive(self) -> None:
        me = self._driver
        try:
            self._patience = PATIENCE
            while self._driver is me:
                await self._let_others_run()
                self._sweep()
                if not self._waiting and not self._live:
                    return
                began = time.perf_counter()
                self._patience = PATIENCE if self._step() else 1
                self.stats["steps"] += 1
                self.stats["seconds"] += time.perf_counter() - began
        except BaseException as error:
            if self._driver is me:  # else its loop is gone, and another one is being served
                self._fail(error)
            if not isinstance(error, Exception):
                raise

    def _fail(self, error: BaseException) -> None:
        """Tell everybody who waits."""
        requests = (*self._live, *self._waiting)
        self._forget_all()
        for request in requests:
            if not request.future.done():
                failure = RuntimeError(f"sampling failed: {type(error).__name__}: {error}")
                failure.__cause__ = error
                request.future.set_exception(failure)

    def _forget_all(self) -> None:
        """Back to the state of a new engine."""
        self._live, self._waiting, self._ended = [], deque(), []
        self._reset()

    def _queue_again(self) -> None:
        """Let every request begin anew behind the tokens it has.

        From here an engine that goes on computes what one does that is handed the same replies anew: whoever trains
        can stop here and be resumed without a bit of difference.
        """
        requests = sorted((*self._live, *self._waiting), key=lambda request: natural(request.session))
        for request in requests:
            request.slot, request.leader = -1, None
        self._live, self._waiting = [], deque(requests)
        self._news, self._patience = self._news + 1, PATIENCE

    def _sweep(self) -> None:
        """Let go of requests whose callers have gone, or whose time is up before a token came."""
        now = time.monotonic()
        for request in (*self._waiting, *self._live):
            if now > request.expires and not request.future.done():
                request.future.set_result(request.completion("deadline"))
        for request in self._live:
            if request.future.done():
                self._leave(request)
        self._waiting = deque(r for r in self._waiting if not r.future.done())
        self._live = [r for r in self._live if not r.future.done()]
        self._ended = []

    async def _let_others_run(self) -> None:
        """Yield until enough rounds of the loop brought no news."""
        quiet, seen = 0, -1
        while quiet < self._patience:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._news == seen else 0
            seen = self._news

    def _receive(self, drawn: Iterable[Drawn]) -> bool:
        """Give live requests their tokens; True when at least one of them is complete now, or late."""
        now = time.monotonic()
        self._ended = []
        for request, token, behaviour, model in drawn:
            request.add(token, behaviour, model, self.version)
            self.stats["sampled"] += 1
            finish = request.finish(self.context)
            if finish is None and now > request.expires:
                finish = "deadline"
            if finish is not None:
                request.future.set_result(request.completion(finish))
                self._ended.append(request)
                self._leave(request)
        self._live = [request for request in self._live if not request.future.done()]
        return bool(self._ended)
