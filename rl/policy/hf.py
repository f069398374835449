"""The sampling engine `hf`: continuous batching over a static key-value cache, by the model in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch
from torch import nn

from rl.policy.batching import BatchingEngine, NewToken
from rl.policy.cached_forward import CachedForward, StepInput, make_forward
from rl.policy.drafts.hidden import last_states
from rl.policy.drafts.verify import verify
from rl.policy.engine import EngineDead
from rl.policy.images.inputs import image_inputs
from rl.policy.kv_cache import KVCache
from rl.policy.quantised.linear import is_quantised, quantise
from rl.policy.request import Request
from rl.policy.sampling import likeliest_rows, sample_rows
from rl.policy.weight_copies import cast_model, copy_weights

SHORTER = 8  # how much shorter than the longest possible sequence most are, for the number of slots
HEADROOM = 8  # memory is divided for sequences that are longer by such a part of their length


class HFPolicy(BatchingEngine):
    """An `Engine` over a Hugging Face model in this process, for one event loop at a time.

    A step that fails ends the open requests and nothing else, unless memory has run out: that is its `failure`.
    """

    verifies_drafts = True

    def __init__(
        self,
        model: nn.Module,
        *,
        slots: int = 256,
        context: int | None = None,
        cache_gib: float = 4.0,
        dtype: torch.dtype | None = None,
        fake_fp8: bool = False,
    ) -> None:
        """Make the cached forward and an empty cache.

        Args:
            model: A Hugging Face causal language model; the engine copies the weights that are trained.
            slots: Most concurrent requests. There are fewer if the cache would outgrow `cache_gib`: as many as fit by
                their present lengths, and those with the fewest tokens wait where they have grown.
            context: Most tokens of one sequence; None for the most that the model can compute.
            cache_gib: Most GiB of keys and values.
            dtype: Precision that replies are sampled in; None for the model's. Another one takes a copy of all weights.
            fake_fp8: Round to FP8 (`rl.policy.quantised.linear`), as the model itself may do; also by a copy.

        Raises:
            ValueError: The model cannot be sampled exactly, or `context` does not fit the model or the cache.
        """
        super().__init__(model, context)
        parameter = next(model.parameters())
        self.dtype: torch.dtype = dtype or parameter.dtype
        self._is_rounding_copy = fake_fp8 and not is_quantised(model)
        has_copy = self.dtype != parameter.dtype or self._is_rounding_copy
        self._cast_copy = self._copy() if has_copy else None
        self.forward: CachedForward = make_forward(self._cast_copy or model)
        parameter = next((self._cast_copy or model).parameters())
        per_token = 2 * self.forward.layers * self.forward.kv_heads * self.forward.head_dim * parameter.element_size()
        max_tokens = int(cache_gib * 2**30 / per_token)
        if max_tokens < self.context:
            raise ValueError(
                f"one sequence of {self.context} tokens needs {per_token * self.context / 2**30:.1f} GiB of cache; "
                f"{cache_gib} GiB are allowed: --max-tokens {max_tokens} fits"
            )
        self.cache = KVCache(
            layers=self.forward.layers,
            kv_heads=self.forward.kv_heads,
            head_dim=self.forward.head_dim,
            slots=min(slots, SHORTER * max_tokens // self.context),
            context=self.context,
            device=parameter.device,
            dtype=parameter.dtype,
            tokens=max_tokens,
        )
        self.slots = self.cache.slots  # active request i has slot i
        self._parked_slots: dict[str, int] = {}  # session without an open request -> slot of its context, oldest first

    def hidden_states(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the last hidden states (N, E) behind `sequences` of token ids, by the weights that are trained."""
        return last_states(self._cast_copy or self.model, sequences)

    def release(self, session: str) -> None:
        """Free the cached keys and values of `session`, an attempt at an episode that is over."""
        super().release(session)
        if self._parked_slots.pop(session, None) is not None:
            return  # so it has no open request
        for request in self._active:
            if request.session == session:  # cancelled, and about to be parked
                request.session = ""

    def sync_weights(self) -> None:
        """Copy the model's weights, increase `version`, and drop the cached keys and values of older weights.

        Open requests continue behind the tokens that they have.
        """
        self.version += 1
        if self._cast_copy is not None and not copy_weights(self.model, self._cast_copy):
            self._cast_copy = self._copy()
            self.forward = make_forward(self._cast_copy)
        self.forward.refresh()
        self.cache.invalidate()
        self._requeue_all()
        self._parked_slots.clear()

    def _copy(self) -> nn.Module:
        """A copy of the model in the precision that replies are sampled in."""
        copy = cast_model(self.model, self.dtype)
        return quantise(copy) if self._is_rounding_copy else copy

    def _reset(self) -> None:
        """See `BatchingEngine`."""
        self._parked_slots.clear()
        self.cache.invalidate()

    def _fail(self, error: BaseException) -> None:
        """See `BatchingEngine`. Memory that ran out would do so again, so this ends the engine."""
        if isinstance(error, torch.OutOfMemoryError):
            self.failure = EngineDead(
                f"out of memory while sampling, {self.slots} sequences of {self.context} tokens at most; "
                "lower --max-tokens, or take a smaller model"
            )
            self.failure.__cause__ = error.with_traceback(None)  # its frames would keep tensors alive
        if self.failure is None or self.on_failure is None:
            super()._fail(self.failure or error)
        else:
            self.on_failure()

    def _step(self) -> bool:
        """Sample one token for every active request; return whether at least one of them finished."""
        if self.failure is not None:
            raise self.failure
        with torch.inference_mode():
            leaders, followers = self._schedule()
            guesses = [len(r.guess(self.context)) if r.draft else 0 for r in leaders]
            step = StepInput.pending(self.cache, len(leaders), 1 + np.array(guesses) if any(guesses) else None)
            logits = self.forward.logits(self.cache, step)
            new_tokens: list[NewToken] = []
            if any(guesses):
                logits, new_tokens = self._verify_drafts(leaders, guesses, logits)
            if followers:
                leader_slots = [r.leader.slot for r in followers if r.leader]
                self.cache.copy(leader_slots, [r.slot for r in followers])
                logits = torch.cat([logits, logits[torch.as_tensor(leader_slots, device=logits.device)]])
                for request in followers:
                    request.leader = None
            any_finished = self._sample_tokens(logits, new_tokens)
        self.stats["fed"] += int((step.end - step.start).sum())
        return any_finished

    def _schedule(self) -> tuple[list[Request], list[Request]]:
        """Choose the requests of this step and give them slots.

        Returns the requests that are computed, in slots 0..n-1, and their followers in the next slots: new requests
        with the same tokens as one of the former, whose logits they share.
        """
        entering = self._entering()
        leaders = list(self._active)
        followers: list[Request] = []
        by_tokens: dict[tuple[int, ...], Request] = {}
        for request in entering:
            request.slot = self._parked_slots.pop(request.session, -1)
            request.leader = None if request.draft else by_tokens.get(request.tokens())
            if request.leader is not None:
                followers.append(request)
            else:
                if not request.draft:
                    by_tokens.setdefault(request.tokens(), request)
                leaders.append(request)
        total = len(leaders) + len(followers)
        if self.cache.is_bounded:
            self._divide_memory(leaders, followers)
        else:
            if entering:
                self.cache.reserve(total + len(self._parked_slots), max(map(self._width, entering)))
            self._assign_slots(leaders, followers, self.cache.rows)
        for request in entering:
            tokens = request.tokens()
            keep = 0 if request.leader else self.cache.share_prefix(request.slot, tokens[:-1])
            if keep and (images := image_inputs(self.model)):
                keep = images.start_of_image(tokens, keep)
            self.cache.write(request.slot, (*tokens, *request.guess(self.context)), keep)
        leaders.sort(key=lambda r: r.slot)
        self._active = [*leaders, *followers]
        self._waiting = deque(islice(self._waiting, len(entering), None))
        return leaders, followers

    def _width(self, request: Request) -> int:
        """Tokens that a request has memory for in this step: its own, those of its draft, and a new one."""
        return min(len(request.prompt) + len(request.ids) + len(request.guess(self.context)) + 1, self.context)

    def _entering(self) -> list[Request]:
        """The waiting requests that become active in this step.

        Where memory does not suffice for all, active requests may have to wait first. Both depend on the lengths of the
        requests alone, so that a run that was interrupted goes on alike.
        """
        room = self.cache.slots - len(self._active)
        if not self.cache.is_bounded:
            return list(islice(self._waiting, room))
        width = max(map(self._width, self._active), default=0)
        excess = len(self._active) - self.cache.capacity(width)
        if excess > 0:
            waiting = sorted(self._active, key=lambda r: (self._width(r), -r.slot))[:excess]
            ids = {id(request) for request in waiting}
            self._active = [request for request in self._active if id(request) not in ids]
            for request in sorted(waiting, key=lambda r: -r.slot):
                request.slot, request.leader = -1, None
                self._waiting.appendleft(request)
            return []
        entering: list[Request] = []
        for request in islice(self._waiting, room):
            width = max(width, self._width(request))
            others = len(self._active) + len(entering)
            if others and others >= self.cache.capacity(width + width // HEADROOM):
                break
            entering.append(request)
        return entering

    def _divide_memory(self, leaders: list[Request], followers: list[Request]) -> None:
        """Give the requests of a step slots, in memory that is divided anew if they do not fit into it as it is."""
        cache, total = self.cache, len(leaders) + len(followers)
        rows, length, width = cache.rows, cache.length, max(map(self._width, (*leaders, *followers)))
        if total > rows or width > length:
            length = cache.block(width + width // HEADROOM)
            if cache.capacity(length) < total:
                length = cache.block(width)
            rows = cache.capacity(length)
            self._parked_slots = {
                session: slot for session, slot in self._parked_slots.items() if cache.num_tokens[slot] <= length
            }
        if rows > cache.rows:
            cache.resize(rows, length)
        self._assign_slots(leaders, followers, rows)
        if (rows, length) != (cache.rows, cache.length):
            cache.resize(rows, length)

    def _assign_slots(self, leaders: list[Request], followers: list[Request], rows: int) -> None:
        """Give `leaders` slots 0..n-1 and `followers` the next ones; parked contexts move behind them, within `rows`.

        Where there is no room for all parked contexts, the oldest are dropped.
        """
        n, total = len(leaders), len(leaders) + len(followers)
        moves: dict[int, int] = {}  # target -> source
        staying = {r.slot for r in leaders if 0 <= r.slot < n}
        holes = iter([slot for slot in range(n) if slot not in staying])
        for request in leaders:
            if not 0 <= request.slot < n:
                hole = next(holes)
                if request.slot >= 0:
                    moves[hole] = request.slot
                request.slot = hole
        for i, request in enumerate(followers):
            request.slot = n + i
        for session in list(self._parked_slots)[: max(0, total + len(self._parked_slots) - rows)]:
            del self._parked_slots[session]
        behind = {slot for slot in self._parked_slots.values() if total <= slot < rows}
        free = iter([slot for slot in range(total, rows) if slot not in behind])
        for session, slot in self._parked_slots.items():
            if not total <= slot < rows:
                self._parked_slots[session] = target = next(free)
                moves[target] = slot
        self.cache.move(list(moves.values()), list(moves))

    def _on_removed(self, request: Request) -> None:
        """See `BatchingEngine`. Keeps the cached context of the request's session."""
        if request.session:
            self._parked_slots[request.session] = request.slot

    def _verify_drafts(
        self, leaders: list[Request], guesses: list[int], logits: torch.Tensor
    ) -> tuple[torch.Tensor, list[NewToken]]:
        """Keep what the policy keeps of the drafts of `leaders`, in their slots and as new tokens, with one more each.

        `logits` have a row more for each slot than tokens were guessed. Returns those of the slots without a draft, one
        row each, in a batch with an unused row for each of the others.
        """
        new_tokens, ends = [], np.cumsum(1 + np.array(guesses))
        for request, guess, end in zip(leaders, guesses, ends.tolist(), strict=True):
            if not request.draft:
                continue
            rows, length = logits[end - guess - 1 : end], len(request.tokens())
            verdict = verify(request.draft, request.guess(self.context), rows, request.params, length)
            request.draft, request.num_verified = None, verdict.num_kept
            tokens = (*request.tokens(), *verdict.tokens)[: self.context]
            self.cache.write(request.slot, tokens, length + verdict.num_kept)
            new_tokens += [NewToken(request, *token) for token in zip(*verdict[1:], strict=True)]
        return logits[torch.as_tensor(ends - 1, device=logits.device)], new_tokens

    def _sample_tokens(self, logits: torch.Tensor, new_tokens: list[NewToken]) -> bool:
        """Sample from logits (N, V) of the N active requests; return whether at least one of them finished.

        Requests that have `new_tokens` already get these instead.
        """
        cache, n = self.cache, len(self._active)
        slots, requests = np.arange(n), self._active
        cache.reserve(cache.rows, int(cache.num_tokens[:n].max()) + 1)
        if new_tokens:
            request_ids = {id(token.request) for token in new_tokens}
            slots = np.array([slot for slot in range(n) if id(requests[slot]) not in request_ids], np.int64)
            requests, logits = [requests[slot] for slot in slots], logits[torch.as_tensor(slots, device=logits.device)]
        if requests:
            params = [request.params for request in requests]
            samples = sample_rows(logits, params, cache.num_tokens[slots])
            cache.ids[slots, cache.num_tokens[slots]] = samples[0]
            cache.num_tokens[slots] += 1
            rows = zip(requests, *samples, likeliest_rows(logits, params), strict=True)
            new_tokens = [*new_tokens, *(NewToken(*row) for row in rows)]
        return self._append_tokens(new_tokens)
