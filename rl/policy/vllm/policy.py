"""vLLM as a sampling engine behind the contract of every other one: tokens in, tokens out, drawn by seed and position.

Episodes share their prefixes in vLLM's cache of prompts, across turns and group mates. New weights are handed over in
place, and proven to have arrived before the next token.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import islice

import torch
from torch import nn

from rl.policy.batching import Batching, Drawn, EngineDead
from rl.policy.request import Request
from rl.policy.vllm import weight_sync
from rl.policy.vllm.devices import Place
from rl.policy.vllm.engine import Engine
from rl.policy.vllm.engine_client import RemoteEngine
from rl.policy.vllm.engine_config import Plan, plan
from rl.policy.vllm.process import EngineLost
from rl.policy.vllm.requests import Unserved
from rl.policy.vllm.version import installed
from rl.records import Completion, SamplingParams

RESTARTS = 3  # of an engine's process in a row, without a token in between

log = logging.getLogger(__name__)


class VLLMPolicy(Batching):
    """A `Policy` over vLLM with the weights of a Hugging Face model, for one loop at a time.

    `context` and `slots` are as of `HFPolicy`; `cache_gib` bounds the cache of a CPU. `reserve_bytes` leaves room on a GPU
    for a trainer of the same model. A GPU computes in bfloat16, a CPU in float32. `gap` is what the last hand-over
    measured.

    vLLM runs in this process, or `apart` in one of its own, on the CUDA `devices` if any are named. The death of such a
    process is no loss: another one takes over, with the weights of the model, behind the tokens that were drawn.
    Adapters are served beside the weights that they are trained on; merged where vLLM cannot do that, in float32 alone.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        slots: int = 256,
        context: int | None = None,
        cache_gib: float = 1.0,
        reserve_bytes: int | None = None,
        apart: bool = False,
        devices: Sequence[int] = (),
    ) -> None:
        """Start vLLM and hand the weights over, which takes seconds. Raise `ValueError` for what it cannot do."""
        super().__init__(model, context)
        found = installed()
        device = next(model.parameters()).device
        if device.type != found.device:
            raise ValueError(
                f"vLLM {found.version} computes on {found.device} and the model is on {device}: "
                f"use --device {found.device}, or --engine hf"
            )
        self.slots = slots
        self.dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
        place = Place.of(device, devices, reserve_bytes=reserve_bytes)
        memory = place.room(model, slots, self.context, self.dtype.itemsize, cache_gib)
        planned = plan(
            model,
            slots=slots,
            context=self.context,
            dtype=self.dtype,
            room=memory,
            sleeps=place.shared and reserve_bytes is not None,
            parallel=max(len(devices), 1),
        )
        variables = place.variables() if apart else None
        try:
            self.engine = _started(planned, variables)
        except Unserved as why:
            self.engine = _started(self._merging(planned, why), variables)
        where = ", in a process of its own" if apart else ""
        self.words = f"vLLM {found.version}{where}: {slots} sequences of {self.context} tokens, {memory.words}"
        self._lost = 0  # engines, since the last token
        try:
            self._surely(self._hand_over)
        except Exception as error:
            self.engine.close()
            raise ValueError(f"{error}") from error

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", received: Completion | None = None
    ) -> Completion:
        """See `Policy.sample`. Raises `EngineDead`, or waits for ever where `on_death` was told of it."""
        if self.death is not None and self.on_death is None:
            raise self.death
        return await super().sample(prompt, params, session=session, received=received)

    def rest(self) -> None:
        """See `Batching`."""
        if self.engine.sleeps and self.death is None:
            self._stand_back()
            with suppress(EngineLost):  # `refresh` will find it so
                self.engine.sleep()

    def refresh(self) -> None:
        """See `Batching`. Raises `EngineDead` as `sample` does."""
        self.version += 1
        self._stand_back()
        try:
            if self.death is None:
                self._surely(self._hand_over)
        except Exception as error:
            self._fail(error)
            if self.on_death is None and self.death is not None:
                raise self.death from error

    def close(self) -> None:
        """Stop vLLM and free its memory; one that is dead need not do it in order."""
        with suppress(Exception) if self.death else nullcontext():
            self.engine.close()

    def _stand_back(self) -> None:
        """Take every request back from the engine; they will go on behind the tokens they have."""
        if self.death is None:
            self.engine.drop(request.slot for request in self._live)
        self._queue_again()

    def _merging(self, planned: Plan, why: Unserved) -> Plan:
        """The same with merged weights, where these lose nothing of the adapters."""
        if torch.bfloat16 in (self.dtype, next(self.model.parameters()).dtype):
            raise ValueError(f"{why}, and merging them into bfloat16 loses small ones: use --engine hf") from why
        log.warning("%s; merging them into the weights instead", why)
        return planned._replace(rank=0, targets=())

    def _hand_over(self) -> None:
        weight_sync.give(self.engine, self.model)
        self.gap = weight_sync.check(self.engine, self.model, self.dtype)

    def _surely(self, work: Callable[[], None]) -> None:
        """Do `work`; if the engine is lost over it, start another one and hand it the weights instead."""
        try:
            return work()
        except EngineLost as lost:
            self._lost += 1
            if self._lost > RESTARTS:
                raise EngineLost(f"{lost}; {RESTARTS} in a row gave no token") from lost
            log.warning("%s; starting another one (%d of %d)", lost, self._lost, RESTARTS)
        self._queue_again()
        self._surely(self._start_again)

    def _start_again(self) -> None:
        assert isinstance(self.engine, RemoteEngine)
        try:
            self.engine.start()
        except ValueError as error:  # it could before: what it lacks may be what the last one has not given back yet
            raise EngineLost(f"the engine does not start again: {error}") from error
        self._hand_over()

    def _step(self) -> bool:
        """See `Batching`; a request's slot is its key in the engine."""
        if self.death is not None:
            raise self.death
        ended = False

        def step() -> None:
            nonlocal ended
            ended = self._advance()

        self._surely(step)
        return ended

    def _advance(self) -> bool:
        entering = list(islice(self._waiting, self.slots - len(self._live)))
        for request in entering:
            request.slot = self.engine.add(request)
        self._live += entering
        self._waiting = deque(islice(self._waiting, len(entering), None))
        by_key = {request.slot: request for request in self._live}
        found = self.engine.step()
        if found:
            self._lost = 0
        return self._receive([Drawn(by_key[key], *drawn) for key, drawn, _ in found])

    def _leave(self, request: Request) -> None:
        """See `Batching`."""
        if self.death is None:
            self.engine.drop([request.slot])

    def _reset(self) -> None:
        """See `Batching`."""
        if self.death is None:
            self.engine.drop(list(self.engine.asked))

    def _fail(self, error: BaseException) -> None:
        """Declare the engine dead: what it keeps for one request is not safe from what another did to it."""
        if isinstance(error, Exception) and self.death is None:
            self.death = EngineDead(f"{type(error).__name__}: {error}")
            self.death.__cause__ = error
        if self.on_death is None or self.death is None:
            super()._fail(self.death or error)
        else:
            self.on_death()


def _started(planned: Plan, variables: Mapping[str, str] | None) -> Engine | RemoteEngine:
    return Engine(planned) if variables is None else RemoteEngine(planned, variables)
