"""The CPU-friendly sampling engine: continuous batching over a static cache, on the event loop's own thread.

Many coroutines call `sample`; a driver task lets every runnable coroutine reach its next `sample`, then computes one
token for all live requests, and so on. With environments that answer at once this makes a run a pure function of its
seed, because no thread decides who is batched with whom.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from rl.policy.cache import SlotCache
from rl.policy.draws import draw, uniforms
from rl.policy.forward import Forward, Work, forward_for
from rl.records import Completion, Finish, SamplingParams


@dataclass(eq=False, slots=True)
class _Request:
    prompt: tuple[int, ...]
    params: SamplingParams
    session: str
    received: Completion | None
    future: asyncio.Future[Completion]
    expires: float
    slot: int = -1
    leader: _Request | None = None  # whose prefill of the same prompt this request shares
    logprobs: list[float] = field(default_factory=list)
    model_logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def tokens(self) -> tuple[int, ...]:
        """Everything to be cached before the next draw."""
        return self.prompt + (self.received.ids if self.received else ())


class HFPolicy:
    """A `Policy` over a Hugging Face model in this process.

    `slots` bounds the concurrent requests, `context` the tokens of one sequence; both are cut so that the cache stays
    within `cache_gib`. `stats` counts what was computed since the start.
    """

    def __init__(self, model: nn.Module, *, slots: int = 256, context: int | None = None, cache_gib: float = 4.0) -> None:
        """Raise `ValueError` when not even one sequence of `context` tokens fits into `cache_gib`."""
        self.version = 0
        self.model: Any = model
        self.forward: Forward = forward_for(model)
        parameter = next(model.parameters())
        limit = int(model.config.get_text_config().max_position_embeddings)  # type: ignore[union-attr,operator]
        self.context = min(context or limit, limit)
        per_token = 2 * self.forward.layers * self.forward.kv_heads * self.forward.head_dim * parameter.element_size()
        fit = int(cache_gib * 2**30 / (per_token * self.context))
        if fit < 1:
            need = per_token * self.context / 2**30
            raise ValueError(f"one sequence of {self.context} tokens needs {need:.1f} GiB of cache; {cache_gib} GiB are allowed")
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
        self._waiting: deque[_Request] = deque()
        self._live: list[_Request] = []  # in slot order: request i sits in slot i
        self._parked: dict[str, int] = {}  # session -> slot of its cached context, oldest first
        self._submitted = 0
        self._driver: asyncio.Task[None] | None = None

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", received: Completion | None = None
    ) -> Completion:
        """See `Policy.sample`. A prompt without room for one token raises `ValueError`."""
        if len(prompt) >= self.context:
            raise ValueError(f"a prompt of {len(prompt)} tokens leaves no room in a context of {self.context}")
        loop = asyncio.get_running_loop()
        request = _Request(
            tuple(prompt), params, session, received, loop.create_future(), time.monotonic() + params.deadline_s
        )
        if received:
            request.logprobs += received.logprobs
            request.model_logprobs += received.model_logprobs
            request.versions += received.versions
        self._waiting.append(request)
        self._submitted += 1
        if self._driver is None or self._driver.done() or self._driver.get_loop() is not loop:
            self._driver = loop.create_task(self._drive())
        return await request.future

    def release(self, session: str) -> None:
        """Forget the cached context of a finished episode."""
        self._parked.pop(session, None)

    def refresh(self) -> None:
        """Sample from the model's present weights from the next token on; cached keys of older weights are dropped."""
        self.version += 1
        self.forward.refresh()
        self.cache.forget()

    def partial(self, session: str) -> Completion | None:
        """What an unfinished request of `session` has drawn so far, for a checkpoint; None when it has none."""
        for request in (*self._live, *self._waiting):
            if request.session == session:
                return self._completion(request, "abort")
        return None

    async def _drive(self) -> None:
        try:
            finished = True
            while True:
                await self._let_others_run(4 if finished else 1)
                self._waiting = deque(r for r in self._waiting if not r.future.done())
                if not self._waiting and not self._live:
                    return
                finished = self._step()
        except BaseException as error:
            for request in (*self._live, *self._waiting):
                if not request.future.done():
                    request.future.set_exception(RuntimeError(f"sampling failed: {type(error).__name__}: {error}"))
            self._live.clear()
            self._waiting.clear()
            raise

    async def _let_others_run(self, passes: int) -> None:
        """Yield until `passes` rounds of the loop brought no new request."""
        quiet, seen = 0, -1
        while quiet < passes:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._submitted == seen else 0
            seen = self._submitted

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

    def _admit(self) -> tuple[list[_Request], list[_Request]]:
        """Choose who is computed in this step and seat them: slots 0..n-1 are fed, the next ones follow a leader."""
        for request in self._live:
            if request.future.done():  # cancelled by its caller
                self._park(request)
        fed = [r for r in self._live if not r.future.done()]
        entering: list[_Request] = []
        followers: list[_Request] = []
        leaders: dict[tuple[int, ...], _Request] = {}
        while self._waiting and len(fed) + len(followers) < self.cache.slots:
            request = self._waiting.popleft()
            entering.append(request)
            request.slot = self._parked.pop(request.session, -1)
            request.leader = leaders.get(request.tokens()) if request.slot < 0 else None
            if request.leader is not None:
                followers.append(request)
            else:
                leaders.setdefault(request.tokens(), request)
                fed.append(request)
        if entering:
            longest = max(len(r.tokens()) for r in entering)
            self.cache.reserve(len(fed) + len(followers), longest + 1)
        self._seat(fed, followers)
        for request in entering:
            tokens = request.tokens()
            keep = 0 if request.leader else self.cache.common(request.slot, tokens[:-1])
            self.cache.write(request.slot, tokens, keep)
        fed.sort(key=lambda r: r.slot)
        self._live = [*fed, *followers]
        return fed, followers

    def _seat(self, fed: list[_Request], followers: list[_Request]) -> None:
        """Give the fed slots 0..n-1 and the followers the next ones; parked contexts move behind them or are dropped."""
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
        behind = {slot for slot in self._parked.values() if slot >= total}
        free = iter([slot for slot in range(total, self.cache.rows) if slot not in behind])
        for session, slot in list(self._parked.items()):
            if slot < total:
                target = next(free, None)
                if target is None:
                    del self._parked[session]
                else:
                    moves[target] = slot
                    self._parked[session] = target
        self.cache.move(list(moves.values()), list(moves))

    def _park(self, request: _Request) -> None:
        if request.session:
            self._parked[request.session] = request.slot

    def _draw(self, logits: torch.Tensor) -> bool:
        live, cache = self._live, self.cache
        n = len(live)
        params = [r.params for r in live]
        seeds = np.fromiter((p.seed for p in params), np.uint64, n)
        temperature = torch.tensor([p.temperature for p in params], device=logits.device)
        narrowed = any(p.top_p < 1 or p.top_k > 0 for p in params)
        top_p = torch.tensor([p.top_p for p in params], device=logits.device) if narrowed else None
        top_k = torch.tensor([p.top_k for p in params], device=logits.device) if narrowed else None
        uniform = torch.as_tensor(uniforms(seeds, cache.known[:n]), device=logits.device)
        token, behaviour, model = draw(logits, uniform, temperature, top_p, top_k)
        known = cache.known[:n]
        cache.reserve(cache.rows, int(known.max()) + 2)
        cache.ids[np.arange(n), cache.known[:n]] = token.cpu().numpy()
        cache.known[:n] += 1
        now = time.monotonic()
        keep: list[_Request] = []
        for request, t, b, m in zip(live, token.tolist(), behaviour.tolist(), model.tolist(), strict=True):
            request.logprobs.append(b)
            request.model_logprobs.append(m)
            request.versions.append(self.version)
            finish: Finish | None = None
            if t in request.params.stop:
                finish = "stop"
            elif len(request.versions) >= request.params.max_tokens or cache.known[request.slot] >= self.context:
                finish = "length"
            elif now > request.expires:
                finish = "deadline"
            if finish is None:
                keep.append(request)
            else:
                if not request.future.done():
                    request.future.set_result(self._completion(request, finish))
                self._park(request)
        self.stats["sampled"] += n
        self._live = keep
        return len(keep) < n

    def _completion(self, request: _Request, finish: Finish) -> Completion:
        count = len(request.versions)
        ids: tuple[int, ...] = ()
        if request.slot >= 0 and count:
            end = len(request.prompt) + count
            ids = tuple(self.cache.ids[request.slot, len(request.prompt) : end].tolist())
        elif request.received:
            ids = request.received.ids
        behaviour = tuple(request.logprobs)
        same = request.params.temperature == 1 and request.params.top_p >= 1 and request.params.top_k <= 0
        model = behaviour if same else tuple(request.model_logprobs)
        return Completion(ids, behaviour, model, tuple(request.versions), finish)
