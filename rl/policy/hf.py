"""The sampling engine of any laptop: continuous batching over a static cache, by the model in this process."""

from __future__ import annotations

from collections import deque
from itertools import islice

import numpy as np
import torch
from torch import nn

from rl.policy.batching import Batching, Drawn, EngineDead
from rl.policy.cache import SlotCache
from rl.policy.draws import draw_each
from rl.policy.forward import Forward, Work, forward_for
from rl.policy.request import Request


class HFPolicy(Batching):
    """A `Policy` over a Hugging Face model in this process, for one event loop at a time.

    `context` bounds the tokens of one sequence (default: what the model can do), `slots` the concurrent requests, of
    which there are fewer where the cache would outgrow `cache_gib`. `stats` counts what was computed since the start.
    It recovers from a step that fails, unless memory has run out: that is its `death`.
    """

    def __init__(
        self, model: nn.Module, *, slots: int = 256, context: int | None = None, cache_gib: float = 4.0
    ) -> None:
        """Raise `ValueError` for a model that cannot be sampled exactly, or a `context` that does not fit."""
        super().__init__(model, context)
        self.forward: Forward = forward_for(model)
        parameter = next(model.parameters())
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
        self.slots = self.cache.slots  # live request i sits in slot i
        self._parked: dict[str, int] = {}  # session -> slot of its cached context, oldest first

    def release(self, session: str) -> None:
        """Forget the cached context of a finished episode."""
        super().release(session)
        self._parked.pop(session, None)
        for request in self._live:
            if request.session == session:  # cancelled, and about to be parked
                request.session = ""

    def refresh(self) -> None:
        """See `Batching`; cached keys of older weights are dropped."""
        self.version += 1
        self.forward.refresh()
        self.cache.forget()
        self._queue_again()
        self._parked.clear()

    def _reset(self) -> None:
        """See `Batching`."""
        self._parked.clear()
        self.cache.forget()

    def _fail(self, error: BaseException) -> None:
        """See `Batching`. Memory that ran out would do so again, and meanwhile spoil one episode after the other."""
        if isinstance(error, torch.OutOfMemoryError):
            self.death = EngineDead(
                f"out of memory while sampling, {self.slots} sequences of {self.context} tokens at most; "
                "lower --max-tokens, or take a smaller model"
            )
            self.death.__cause__ = error.with_traceback(None)  # whose frames hold what was computed
        if self.death is None or self.on_death is None:
            super()._fail(self.death or error)
        else:
            self.on_death()

    def _step(self) -> bool:
        """Draw one token for every live request; True when at least one of them ended."""
        if self.death is not None:
            raise self.death
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
        self.stats["fed"] += int((work.end - work.start).sum())
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

    def _leave(self, request: Request) -> None:
        """Keep what is cached of its session."""
        if request.session:
            self._parked[request.session] = request.slot

    def _draw(self, logits: torch.Tensor) -> bool:
        cache, n = self.cache, len(self._live)
        drawn = draw_each(logits, [request.params for request in self._live], cache.known[:n])
        cache.reserve(cache.rows, int(cache.known[:n].max()) + 1)
        cache.ids[np.arange(n), cache.known[:n]] = drawn[0]
        cache.known[:n] += 1
        return self._receive([Drawn(*row) for row in zip(self._live, *drawn, strict=True)])
