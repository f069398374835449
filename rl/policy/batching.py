"""Continuous batching of requests on the event loop's own thread, as all sampling engines do it.

Many coroutines await `sample`. A driver task (`rl.policy.driver`) lets every runnable coroutine reach its next
`sample`, then computes one token for all active requests, and so on. With environments that answer at once this makes a
run a pure function of its seed, because no thread decides which requests are batched together.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from torch import nn

from agents.images import TEXT_ONLY, PlacedImage
from rl.policy.driver import Driver
from rl.policy.engine import Engine
from rl.policy.images.inputs import image_inputs
from rl.policy.model_config import max_sequence_length, text_config
from rl.policy.request import Request, natural_sort_key
from rl.records import Completion, Draft, SamplingParams


class NewToken(NamedTuple):
    """A sampled token of a request, with its log-probability under the sampled distribution and under the model.

    `alternatives` are the likeliest tokens in its place, if the request asks for them.
    """

    request: Request
    token: int
    logprob: float
    model_logprob: float
    alternatives: tuple[tuple[int, float], ...] = ()


class BatchingEngine(Engine):
    """An `Engine` that batches requests continuously on one event loop; subclasses compute in `_step`.

    `stats` count what was computed since the start: steps, sampled tokens, tokens fed to the model, seconds.
    """

    kind = "hf"  # of `rl.policy.model_config.max_sequence_length`

    def __init__(self, model: nn.Module, context: int | None = None) -> None:
        """Bound sequences to `context` tokens, by default the most that `model` can compute exactly.

        Raises `ValueError` for a `context` below 2 or above that limit.
        """
        limit = max_sequence_length(model, self.kind)
        if context is not None and not 1 < context <= limit:
            name, hint = text_config(model).model_type, ""
            if max_sequence_length(model, "vllm") > limit:
                hint = " with the engine hf, the window of its attention; --engine vllm samples longer ones"
            raise ValueError(
                f"a context of {context} tokens (--max-tokens); this {name} model computes 2 to {limit} exactly{hint}"
            )
        self.model: Any = model
        self.version = 0
        self.context = limit if context is None else context
        self.stats = {"steps": 0, "sampled": 0, "fed": 0, "seconds": 0.0}
        self._waiting: deque[Request] = deque()
        self._active: list[Request] = []
        self._just_finished: dict[str, Request] = {}  # by session, in the last step; their callers have not run since
        self.driver: Driver | None = None  # of the event loop that is served

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        session: str = "",
        resume_from: Completion | None = None,
        images: Sequence[PlacedImage] = (),
        draft: Draft | None = None,
    ) -> Completion:
        """Queue a request for one reply to the token ids `prompt`; return the reply once its last token is sampled.

        The arguments and the result are as `Policy.sample` says. Raises `ValueError` for an empty prompt, one that
        fills the engine's `context`, or images that the model cannot read, and `RuntimeError` if the computation fails.
        """
        if images:
            inputs = image_inputs(self.model)
            if inputs is None:
                raise ValueError(TEXT_ONLY)
            prompt = inputs.code(prompt, images)
        if not 0 < len(prompt) < self.context:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens; a context of {self.context} has room for 1 to {self.context - 1}"
            )
        loop = asyncio.get_running_loop()
        request = Request.create(prompt, params, session, resume_from, loop.create_future(), draft)
        if finish := request.finish_reason(self.context):
            return request.completion(finish)
        driver = Driver.of(loop)
        if self.driver is not driver:
            if self.driver is not None:
                self._clear()  # the requests of an earlier loop ended with it
            self.driver = driver
        self._waiting.append(request)
        driver.add(self, loop)
        return await request.future

    def partial(self, session: str) -> Completion | None:
        """Return what has been sampled so far of the open request of `session` (an attempt at an episode).

        Its `finish` is "abort", or the final value if the reply is complete but not delivered yet. None without an open
        request.
        """
        for request in (*self._active, *self._waiting):
            if request.session == session and not request.future.done():
                return request.completion("abort")
        last = self._just_finished.get(session)
        if last is None or last.future.cancelled() or last.future.exception():
            return None
        return last.future.result()

    def release(self, session: str) -> None:
        """Forget what was kept for `session`, an attempt at an episode that is over; unknown ones are ignored."""
        self._just_finished.pop(session, None)

    def _step(self) -> bool:
        """Sample tokens for active and waiting requests; return whether at least one request finished."""
        raise NotImplementedError

    def _on_removed(self, request: Request) -> None:
        """Hook: an active request has finished, or its caller was cancelled."""

    def _reset(self) -> None:
        """Hook: drop everything that is cached, which cannot be relied on after a failure."""

    def step(self) -> bool:
        """See `Driver`."""
        start = time.perf_counter()
        any_finished = self._step()
        self.stats["steps"] += 1
        self.stats["seconds"] += time.perf_counter() - start
        return any_finished

    def fail(self, error: BaseException) -> None:
        """See `Driver`."""
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Fail all open requests with `error` and return to the state of a new engine."""
        requests = (*self._active, *self._waiting)
        self._clear()
        for request in requests:
            if not request.future.done():
                failure = RuntimeError(f"sampling failed: {type(error).__name__}: {error}")
                failure.__cause__ = error
                request.future.set_exception(failure)

    def _clear(self) -> None:
        """Return to the state of a new engine."""
        self._active, self._waiting, self._just_finished = [], deque(), {}
        self._reset()

    def _requeue_all(self) -> None:
        """Put all open requests back into the queue, to continue behind the tokens they have.

        From here the engine computes exactly what a new one would that is given the same partial replies: a run that
        is stopped here and resumed does not differ in a bit.
        """
        requests = sorted((*self._active, *self._waiting), key=lambda request: natural_sort_key(request.session))
        for request in requests:
            request.slot, request.leader = -1, None
        self._active, self._waiting = [], deque(requests)
        if self.driver is not None:
            self.driver.wait_for_callers()

    def remove_done_requests(self) -> bool:
        """End requests whose deadline passed before the next token; see `Driver`."""
        now = time.monotonic()
        for request in (*self._waiting, *self._active):
            if now > request.deadline and not request.future.done():
                request.future.set_result(request.completion("deadline"))
        for request in self._active:
            if request.future.done():
                self._on_removed(request)
        self._waiting = deque(r for r in self._waiting if not r.future.done())
        self._active = [r for r in self._active if not r.future.done()]
        self._just_finished = {}
        return bool(self._waiting or self._active)

    def _append_tokens(self, tokens: Iterable[NewToken]) -> bool:
        """Append new tokens to active requests; return whether one of these is complete now, or past its deadline."""
        now = time.monotonic()
        self._just_finished = {}
        for request, token, logprob, model_logprob, alternatives in tokens:
            if request.future.done():  # what follows a draft that has ended the reply
                continue
            request.append(token, logprob, model_logprob, self.version, alternatives)
            self.stats["sampled"] += len(request.ids) > request.num_verified
            finish = request.finish_reason(self.context)
            if finish is None and now > request.deadline:
                finish = "deadline"
            if finish is not None:
                request.future.set_result(request.completion(finish))
                self._just_finished[request.session] = request
                self._on_removed(request)
        self._active = [request for request in self._active if not request.future.done()]
        return bool(self._just_finished)
