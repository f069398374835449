"""vLLM as an `rl.policy.engine.Engine`: tokens in, tokens out, sampled by seed and position.

Episodes share their prefixes in vLLM's prefix cache, across turns and group members. New weights are loaded in place,
and compared with the trainer's before the next token.
"""

from __future__ import annotations

import logging
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import islice

import torch
from torch import nn

from agents.images import PlacedImage
from rl.policy.batching import BatchingEngine, NewToken
from rl.policy.engine import EngineDead
from rl.policy.images.inputs import image_inputs
from rl.policy.registry import default_dtype
from rl.policy.request import Request
from rl.policy.vllm import weight_sync
from rl.policy.vllm.devices import EngineDevices
from rl.policy.vllm.engine import VLLMEngine
from rl.policy.vllm.engine_client import VLLMEngineClient
from rl.policy.vllm.engine_config import EngineConfig, make_engine_config
from rl.policy.vllm.process import EngineLost
from rl.policy.vllm.requests import EngineRequest, UnsupportedAdapters, as_snapshot
from rl.policy.vllm.version import require_vllm
from rl.records import Completion, Draft, SamplingParams

MAX_RESTARTS = 3  # of an engine's process in a row, without a token in between

log = logging.getLogger(__name__)


class VLLMPolicy(BatchingEngine):
    """An `Engine` over vLLM with the weights of a Hugging Face model, for one event loop at a time.

    By default it computes in bfloat16 on a GPU and in float32 on a CPU. `logprob_gap` is what
    `weight_sync.check_weights` measured after the weights were last loaded. Adapters are served beside the frozen
    weights that they are trained on; where vLLM cannot do that they are merged, in float32 alone.

    An engine in a process of its own that dies is replaced: the new one gets the model's weights, and open requests
    continue behind the tokens that they have.
    """

    kind = "vllm"

    def __init__(
        self,
        model: nn.Module,
        *,
        slots: int = 256,
        context: int | None = None,
        cache_gib: float = 1.0,
        reserve_bytes: int | None = None,
        following: int = 0,
        separate_process: bool = False,
        devices: Sequence[int] = (),
        dtype: str = "",
        draws: str = "",
    ) -> None:
        """Start vLLM and load the weights, which takes seconds.

        Args:
            model: A Hugging Face causal language model.
            slots: Most concurrent requests.
            context: Most tokens of one sequence; None for the most that the model can compute.
            cache_gib: Most GiB of keys and values on a CPU.
            reserve_bytes: GPU memory that a trainer of the same model will still take; None if nothing is trained.
            following: Engines that will be started after it on the same device, and get as much of the memory.
            separate_process: Whether vLLM runs in a process of its own.
            devices: CUDA devices of that process; empty for the model's.
            dtype: Precision to compute in, "float32" or "bfloat16"; empty for the device's default.
            draws: "native" for vLLM's own sampler, "keyed" for that of the hf engine; empty for "native" where a model
                is trained on a GPU and "keyed" elsewhere.

        Raises:
            ValueError: vLLM is not installed, or cannot compute the model on its device or within the memory.
        """
        super().__init__(model, context)
        vllm = require_vllm()
        device = next(model.parameters()).device
        if device.type != vllm.device:
            raise ValueError(
                f"vLLM {vllm.version} computes on {vllm.device} and the model is on {device}: "
                f"use --device {vllm.device}, or --engine hf"
            )
        self.slots = slots
        self.dtype: torch.dtype = getattr(torch, dtype or default_dtype("vllm", device.type, ""))
        engine_devices = EngineDevices.resolve(device, devices, reserve_bytes=reserve_bytes)
        memory = engine_devices.memory_budget(model, slots, self.context, self.dtype.itemsize, cache_gib, following)
        config = make_engine_config(
            model,
            slots=slots,
            context=self.context,
            dtype=self.dtype,
            memory=memory,
            can_sleep=engine_devices.with_trainer and reserve_bytes is not None,
            tensor_parallel_size=max(len(devices), 1),
            draws=draws or ("native" if device.type == "cuda" and reserve_bytes is not None else "keyed"),
            shares_memory=separate_process and engine_devices.with_trainer and len(engine_devices.numbers) == 1,
        )
        environment = engine_devices.environment() if separate_process else None
        try:
            self.engine = _start_engine(config, environment)
        except UnsupportedAdapters as error:
            self.engine = _start_engine(self._merging_config(config, error), environment)
        where = ", in a process of its own" * separate_process + ", its own sampler" * (config.draws == "native")
        sizes = f"{slots} sequences of {self.context} tokens, {memory.description}"
        self.description = f"vLLM {vllm.version}{where}: {sizes}"
        self._num_losses, self._has_paused = 0, False  # engines, since a token; since new weights
        try:
            self._restart_on_loss(self._push_weights)
        except Exception as error:
            _clear_frames(error)
            self.engine.close()
            raise ValueError(f"{error}") from error

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
        """Sample one reply to the token ids `prompt`; arguments and result are as `Policy.sample` says.

        Nothing is kept of a draft: vLLM would have to verify it.

        Raises `ValueError` for an empty prompt or one without room for a token, and `EngineDead` if the engine has
        failed; with `on_failure` set, a request to a failed engine stays pending instead.
        """
        if self.failure is not None and self.on_failure is None:
            raise self.failure
        return await super().sample(prompt, params, session=session, resume_from=resume_from, images=images)

    def pause(self) -> None:
        """Free the engine's memory for an optimiser step, if it can sleep; open requests continue afterwards."""
        if not self.engine.can_sleep or self.failure is not None:
            return
        self._take_back_requests()
        self._has_paused = True
        try:
            with suppress(EngineLost):  # `sync_weights` will notice
                self.engine.sleep()
        except Exception as error:  # of a step that was computed ahead
            self._fail(error)
            if self.on_failure is None and self.failure is not None:
                raise self.failure from error

    def sync_weights(self) -> None:
        """Load the model's weights into the engine and increase `version`; open requests continue behind their tokens.

        Raises `EngineDead` if the engine cannot take the weights over and `on_failure` is None; else sets `failure` and
        calls it.
        """
        self.version += 1
        self._take_back_requests()
        try:
            if self.failure is None:
                self._restart_on_loss(self._push_weights)
        except Exception as error:
            self._fail(error)
            if self.on_failure is None and self.failure is not None:
                raise self.failure from error

    def close(self) -> None:
        """Stop vLLM and free its memory; errors of an engine that has failed are ignored."""
        _clear_frames(self.failure)
        with suppress(Exception) if self.failure else nullcontext():
            self.engine.close()

    def _take_back_requests(self) -> None:
        """Remove all requests from the engine; they will continue behind the tokens they have."""
        if self.failure is None:
            self.engine.abort(request.slot for request in self._active)
        self._requeue_all()

    def _merging_config(self, config: EngineConfig, error: UnsupportedAdapters) -> EngineConfig:
        """`config` with adapters merged into the weights. Raises `ValueError` if that would lose small ones."""
        if torch.bfloat16 in (self.dtype, next(self.model.parameters()).dtype):
            raise ValueError(f"{error}, and merging them into bfloat16 loses small ones: use --engine hf") from error
        log.warning("%s; merging them into the weights instead", error)
        return config._replace(lora_rank=0, lora_targets=())

    def _push_weights(self) -> None:
        self._return_cached_memory()
        weight_sync.push_weights(self.engine, self.model)
        self.logprob_gap = weight_sync.check_weights(self.engine, self.model, self.dtype)

    def _restart_on_loss(self, call: Callable[[], None]) -> None:
        """Make a call to the engine; if the engine is lost in it, start another one and load the weights instead."""
        try:
            return call()
        except EngineLost as error:
            self._num_losses += 1
            if self._num_losses > MAX_RESTARTS:
                raise EngineLost(f"{error}; {MAX_RESTARTS} in a row gave no token") from error
            log.warning("%s; starting another one (%d of %d)", error, self._num_losses, MAX_RESTARTS)
        self._requeue_all()
        self._restart_on_loss(self._restart_engine)

    def _restart_engine(self) -> None:
        assert isinstance(self.engine, VLLMEngineClient)
        self._return_cached_memory()
        try:
            self.engine.start()
        except ValueError as error:  # it started before: perhaps the last one's memory is not free yet
            raise EngineLost(f"the engine does not start again: {error}") from error
        self._push_weights()

    def _return_cached_memory(self) -> None:
        """Return the memory that torch keeps of the trainer's last update: an engine that slept wakes up in it."""
        if self._has_paused and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        self._has_paused = False

    def _step(self) -> bool:
        """See `BatchingEngine`; a request's slot is its key in the engine."""
        if self.failure is not None:
            raise self.failure
        any_finished = False

        def step() -> None:
            nonlocal any_finished
            any_finished = self._step_engine()

        self._restart_on_loss(step)
        return any_finished

    def _step_engine(self) -> bool:
        """Add waiting requests to the engine and compute one step; return whether a request finished."""
        entering = list(islice(self._waiting, self.slots - len(self._active)))
        images = image_inputs(self.model)
        for request in entering:
            message: EngineRequest = as_snapshot(request, images) if images else request
            request.slot = self.engine.add_request(message)
        self._active += entering
        self._waiting = deque(islice(self._waiting, len(entering), None))
        by_key = {request.slot: request for request in self._active}
        outputs = self.engine.step()
        if outputs:
            self._num_losses = 0
        return self._append_tokens([NewToken(by_key[key], *sample) for key, sample, _ in outputs])

    def _on_removed(self, request: Request) -> None:
        """See `BatchingEngine`."""
        if self.failure is None:
            self.engine.abort([request.slot])

    def _reset(self) -> None:
        """See `BatchingEngine`."""
        if self.failure is None:
            self.engine.abort(list(self.engine.requests))

    def _fail(self, error: BaseException) -> None:
        """See `BatchingEngine`. Every error ends the engine: its state may be damaged for the other requests too."""
        if isinstance(error, Exception) and self.failure is None:
            self.failure = EngineDead(f"{type(error).__name__}: {error}")
            self.failure.__cause__ = error
        if self.on_failure is None or self.failure is None:
            super()._fail(self.failure or error)
        else:
            self.on_failure()


def _start_engine(config: EngineConfig, environment: Mapping[str, str] | None) -> VLLMEngine | VLLMEngineClient:
    """An engine in this process, or with an `environment` in a process of its own."""
    return VLLMEngine(config) if environment is None else VLLMEngineClient(config, environment)


def _clear_frames(error: BaseException | None) -> None:
    """Drop what the frames of an error and its causes refer to: it keeps them, and they keep an engine in memory."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
