"""The CPU-friendly sampling engine: continuous batching over a static cache, on the event loop's own thread.

Many coroutines call `sample`; a driver task lets every runnable coroutine reach its next `sample`, then computes one
token for all live requests, and so on. With environments that answer at once this makes a run a pure function of its
seed, because no thread decides who is batched with whom.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from rl.policy.cache import SlotCache
from rl.policy.draws import draw, uniforms
from rl.policy.forward import Forward, Work, forward_for, longest, text_config
from rl.policy.request import Request, natural
from rl.records import Completion, SamplingParams

_UINT64 = 2**64 - 1
PATIENCE = 4  # rounds of the loop from a reply that ended to the next request of whoever read it


class HFPolicy:
    """A `Policy` over a Hugging Face model in this process, for one event loop at a time.

    `context` bounds the tokens of one sequence (default: what the model can do), `slots` the concurrent requests, of
    which there are fewer where the cache would outgrow `cache_gib`. `stats` counts what was computed since the start.
    """

    def __init__(
        self, model: nn.Module, *, slots: int = 256, context: int | None = None, cache_gib: float = 4.0
    ) -> None:
        """Raise `ValueError` for a model that cannot be sampled exactly, or a `context` that does not fit."""
        self.version = 0
        self.model: Any = model
        self.forward: Forward = forward_for(model)
        parameter = next(model.parameters())
        limit = longest(model)
        self.context = limit if context is None else context
        if not 1 < self.context <= limit:
            kind = text_config(model).model_type
            raise ValueError(f"a context of {context} tokens; this {kind} model computes 2 to {limit} exactly")
        per_token = 2 * self.forward.layers * self.forward.kv_heads * self.forward.head_dim * parameter.element_size()
        fit = int(cache_gib * 2**30 / (per_token * self.context))
        if fit < 1:
            need = per_token * self.context / 2**30
            raise ValueError(
                f"one sequence of {self.context} tokens needs {need:.1f} GiB of cache; {cache_gib} GiB are allowed"
            )
        self.cache = SlotCache(
            layers=self.forward.layers,
            kv_heads=self.forward.kv_heads,
            head_dim=self.forward.head_dim,
            slots=max(1, min(slots, fit)),
            context=self.context,
            device=parameter.device,
            dtype=parameter.dtype,
        )
        self.stats = {"steps": 0, "sampled": 0, "fed": 0, "seconds": 0.0}
        self._waiting: deque[Request] = deque()
        self._live: list[Request] = []  # in slot order: request i sits in slot i
        self._parked: dict[str, int] = {}  # session -> slot of its cached context, oldest first
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

    def release(self, session: str) -> None:
        """Forget the cached context of a finished episode."""
        self._parked.pop(session, None)
        self._ended = [request for request in self._ended if request.session != session]
        for request in self._live:
            if request.session == session:  # cancelled, and about to be parked
                request.session = ""

    def refresh(self) -> None:
        """Sample from the model's present weights from the next token on; cached keys of older weights are dropped.

        To be called on the event loop's thread.
        """
        self.version += 1
        self.forward.refresh()
        self.cache.forget()
        # From here an engine that goes on computes what one does that is handed the same replies anew: whoever trains
        # can stop here and be resumed without a bit of difference.
        requests = sorted((*self._live, *self._waiting), key=lambda request: natural(request.session))
        for request in requests:
            request.slot, request.leader = -1, None
        self._live, self._waiting = [], deque(requests)
        self._parked.clear()
        self._news, self._patience = self._news + 1, PATIENCE

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
                self._patience = PATIENCE if self._step() else 1
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
        """Back to the state of a new engine: after a failure, nothing that is cached can be relied on."""
        self._live, self._waiting, self._ended = [], deque(), []
        self._parked.clear()
        self.cache.forget()

    def _sweep(self) -> None:
        """Let go of requests whose callers have gone, or whose time was up before their turn came."""
        now = time.monotonic()
        for request in self._waiting:
            if now > request.expires and not request.future.done():
                request.future.set_result(request.completion("deadline"))
        for request in self._live:
            if request.future.done():
                self._park(request)
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

    def _step(self) -> bool:
        """Draw one token for every live request; True when at least one of them ended."""
        began = time.perf_counter()
        with torch.inference_mode():
            fed, followers = self._admit()
            work = Work.of(self.cache, len(fed))
            logits = self.forward.logits(self.cache, work)
            if followers:
                leaders = [r.leader.slot for r in followers if r.leader]
                self.cache.copy(leaders, [r.slot for r in followers])
                logits = torch.cat([logits, logits[torch.as_tensor(leaders, device=logits.device)]])
                for request in followers:
                    request.leader = None
            ended = self._draw(logits)
        self.stats["steps"] += 1
        self.stats["fed"] += int((work.end - work.start).sum())
        self.stats["seconds"] += time.perf_counter() - began
        return ended

    def _admit(self) -> tuple[list[Request], list[Request]]:
        """Choose who is computed in this step and seat them: slots 0..n-1 are fed, the next ones follow a leader."""
        fed = list(self._live)
        entering = list(islice(self._waiting, self.cache.slots - len(fed)))
        followers: list[Request] = []
        leaders: dict[tuple[int, ...], Request] = {}
        for request in entering:
            request.slot = self._parked.pop(request.session, -1)
            request.leader = leaders.get(request.tokens())
            if request.leader is not None:
                followers.append(request)
            else:
                leaders.setdefault(request.tokens(), request)
                fed.append(request)
        if entering:
            width = max(len(r.tokens()) for r in entering)
            self.cache.reserve(len(fed) + len(followers) + len(self._parked), width + 1)
        self._seat(fed, followers)
        for request in entering:
            tokens = request.tokens()
            keep = 0 if request.leader else self.cache.share(request.slot, tokens[:-1])
            self.cache.write(request.slot, tokens, keep)
        fed.sort(key=lambda r: r.slot)
        self._live = [*fed, *followers]
        self._waiting = deque(islice(self._waiting, len(entering), None))
        return fed, followers

    def _seat(self, fed: list[Request], followers: list[Request]) -> None:
        """Give the fed slots 0..n-1 and the followers the next ones; parked contexts move behind them.

        Where there is no room for all of those, the oldest are dropped.
        """
        n, total = len(fed), len(fed) + len(followers)
        moves: dict[int, int] = {}  # target -> source
        staying = {r.slot for r in fed if 0 <= r.slot < n}
        holes = iter([slot for slot in range(n) if slot not in staying])
        for request in fed:
            if not 0 <= request.slot < n:
                hole = next(holes)
                if request.slot >= 0:
                    moves[hole] = request.slot
                request.slot = hole
        for i, request in enumerate(followers):
            request.slot = n + i
        for session in list(self._parked)[: max(0, total + len(self._parked) - self.cache.rows)]:
            del self._parked[session]
        behind = {slot for slot in self._parked.values() if slot >= total}
        free = iter([slot for slot in range(total, self.cache.rows) if slot not in behind])
        for session, slot in self._parked.items():
            if slot < total:
                self._parked[session] = target = next(free)
                moves[target] = slot
        self.cache.move(list(moves.values()), list(moves))

    def _park(self, request: Request) -> None:
        if request.session:
            self._parked[request.session] = request.slot

    def _draw(self, logits: torch.Tensor) -> bool:
        live, cache = self._live, self.cache
        n = len(live)
        params = [r.params for r in live]
        seeds = np.fromiter((p.seed & _UINT64 for p in params), np.uint64, n)
        temperature = torch.tensor([p.temperature for p in params], device=logits.device)
        narrowed = any(p.top_p < 1 or p.top_k > 0 for p in params)
        top_p = torch.tensor([p.top_p for p in params], device=logits.device) if narrowed else None
        top_k = torch.tensor([p.top_k for p in params], device=logits.device) if narrowed else None
        uniform = torch.as_tensor(uniforms(seeds, cache.known[:n]), device=logits.device)
        drawn = [part.tolist() for part in draw(logits, uniform, temperature, top_p, top_k)]
        if not math.isfinite(sum(drawn[1]) + sum(drawn[2])):
            raise FloatingPointError("the model's logits are not finite")
        cache.reserve(cache.rows, int(cache.known[:n].max()) + 1)
        cache.ids[np.arange(n), cache.known[:n]] = drawn[0]
        cache.known[:n] += 1
        now = time.monotonic()
        self._live, self._ended = [], []
        for request, token, behaviour, model in zip(live, *drawn, strict=True):
            request.add(token, behaviour, model, self.version)
            finish = request.finish(self.context)
            if finish is None and now > request.expires:
                finish = "deadline"
            if finish is None:
                self._live.append(request)
            else:
                request.future.set_result(request.completion(finish))
                self._ended.append(request)
                self._park(request)
        self.stats["sampled"] += n
        return bool(self._ended)
