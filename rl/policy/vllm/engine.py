"""vLLM in this process: one token per request and step, from weights and adapters that are replaced in place."""

from __future__ import annotations

import gc
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl import checksums
from rl.policy.images.inputs import read_image
from rl.policy.vllm.engine_config import EngineConfig
from rl.policy.vllm.launch import contain_side_effects, launch_vllm
from rl.policy.vllm.memory import explain_out_of_memory
from rl.policy.vllm.outputs import TokenOutputs
from rl.policy.vllm.requests import EngineRequest, RequestSnapshot, StepOutput
from rl.policy.vllm.samples import KeyedSamples, NativeSamples, limits
from rl.policy.vllm.shared_weights import SharedTensor, rebuild_weights, release_shared
from rl.policy.vllm.weight_file import without_second_head


class VLLMEngine:
    """A running vLLM; it has no weights before the first `load_weights` or `load_weight_file`.

    There can be one at a time in a process, because closing one takes away what another needs. `requests` are those
    that vLLM holds, by key. `num_cached_tokens` counts the prompt tokens that were read from the prefix cache. Callers
    set `has_base_weights` when the engine has the frozen weights below adapters.
    """

    _is_running: ClassVar[bool] = False

    def __init__(self, config: EngineConfig, home: str | None = None) -> None:
        """Start vLLM; temporary files go to the folder `home`, or to the system's default.

        Raises `ValueError` if vLLM cannot compute the model or lacks memory, or an engine runs already.
        """
        if VLLMEngine._is_running:
            raise ValueError("an engine of vLLM runs in this process already; close it first, or use vllm:process")
        self.config, self.context, self.can_sleep, self._is_asleep = config, config.context, config.can_sleep, False
        self.has_base_weights = False
        self.requests: dict[int, EngineRequest] = {}
        self.num_cached_tokens = 0
        self._new: set[int] = set()  # keys of requests without a token yet
        self._keys, self._memory, self._home = count(), config.memory.description, home
        self._lora_request: Any = None  # vLLM's request for the current adapters
        self._adapter_ids = count(1)
        folder = tempfile.TemporaryDirectory(prefix="turnwise-", dir=home)
        try:
            with contain_side_effects(), explain_out_of_memory("at its start", self._memory):
                self._engine = launch_vllm(config, Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
        if config.images is None:
            folder.cleanup()
        self._engine.output_processor = TokenOutputs()
        self._reader = NativeSamples(self._engine) if config.draws == "native" else KeyedSamples(self._engine)
        VLLMEngine._is_running = True
        self._shutdown = weakref.finalize(self, _shut_down, self._engine, folder)

    def add_request(self, request: EngineRequest, key: int | None = None) -> int:
        """Add a request, which continues after its prompt and `ids`; return its key, a new one by default.

        A key is the number by which `step` and `abort` name the request. The sequence must have room for a token.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        key = next(self._keys) if key is None else key
        tokens = [*request.prompt, *request.ids]
        prompt: dict[str, Any] = {"prompt_token_ids": tokens}
        expansion = 0
        if isinstance(request, RequestSnapshot) and request.images:
            prompt["multi_modal_data"] = {"image": [read_image(image) for image in request.images]}
            prompt["multi_modal_uuids"] = {"image": [checksums.digest(image.encode()) for image in request.images]}
            expansion = request.expansion
        params = SamplingParams(
            **self._reader.params(request, key),
            **limits(request, self.context - expansion),
            output_kind=RequestOutputKind.DELTA,
        )
        self.requests[key] = request
        if not request.ids:
            self._new.add(key)
        self._engine.add_request(str(key), prompt, params, lora_request=self._lora_request)
        return key

    def abort(self, keys: Iterable[int]) -> None:
        """Remove requests; keys that the engine does not hold are ignored."""
        present = [key for key in keys if self.requests.pop(key, None) is not None]
        if present:
            self._new.difference_update(present)
            self._engine.abort_request([str(key) for key in present])

    def step(self) -> list[StepOutput]:
        """Compute one step and return the new tokens.

        A request may have none, since a long prompt takes several steps and a vLLM that schedules ahead is one behind.
        Raises `ValueError` if vLLM puts other tokens in the place of images than the model's processor does.
        """
        results = []
        with explain_out_of_memory("while sampling", self._memory):
            outputs = self._engine.step()
        for output, samples in zip(outputs, self._reader.samples(outputs, self.requests), strict=True):
            key = output.key
            if key in self._new:
                self._new.discard(key)
                _check_length(self.requests[key], output.prompt_length)
                self.num_cached_tokens += output.num_cached_tokens
            if output.is_finished:
                del self.requests[key]
            last = len(samples) - 1
            results += [StepOutput(key, one, output.is_finished and i == last) for i, one in enumerate(samples)]
        return results

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the weights, given as `(name in a checkpoint, tensor)`; remove adapters and the prefix cache.

        Wakes an engine that sleeps.
        """
        with self._replacing_weights():
            self._remove_adapters()
            worker = self._engine.model_executor.driver_worker.worker
            worker.reload_weights(weights_iterator=iter(without_second_head(worker.get_model(), weights)))

    def load_shared_weights(self, handles: Sequence[tuple[str, SharedTensor]]) -> None:
        """Replace the weights by tensors of another process, as `share_weights` made them; see `load_weights`.

        They are copied on their device, and not needed any more afterwards.
        """
        self.load_weights(rebuild_weights(handles))
        release_shared()

    def load_weight_file(self, path: str, tied: Mapping[str, str]) -> None:
        """Replace the weights by those in the safetensors file at `path`; remove adapters and the prefix cache.

        `tied` maps the names of further weights to those in the file that they share. Wakes an engine that sleeps.
        """
        call_workers = self._engine.model_executor.collective_rpc
        with self._replacing_weights():
            self._remove_adapters()
            call_workers("start_weight_update")
            call_workers("update_weights", kwargs={"update_info": {"path": path, "tied": dict(tied)}})
            call_workers("finish_weight_update")

    def load_adapters(self, write: Callable[[Path], None]) -> int:
        """Replace the adapters by those that `write` saves in a folder in peft's layout.

        Returns the number of matrices with an adapter. Drops the prefix cache and wakes an engine that sleeps.
        """
        with tempfile.TemporaryDirectory(prefix="turnwise-", dir=self._home) as folder:
            write(Path(folder))
            return self.load_adapter_folder(folder)

    def load_adapter_folder(self, folder: str) -> int:
        """Replace the adapters by those in `folder`, in peft's layout; return the number of matrices with one.

        Drops the prefix cache and wakes an engine that sleeps.
        """
        from vllm.lora.request import LoRARequest

        with self._replacing_weights():
            self._remove_adapters()
            number = next(self._adapter_ids)  # a new name and number: vLLM keeps adapters, keys and values by these
            self._lora_request = LoRARequest(f"turnwise-{number}", number, folder)
            self._engine.add_lora(self._lora_request)
            return min(self._engine.model_executor.collective_rpc("turnwise_count_adapters"))

    def _remove_adapters(self) -> None:
        if self._lora_request is not None:
            self._engine.remove_lora(self._lora_request.lora_int_id)
            self._lora_request = None

    @contextmanager
    def _replacing_weights(self) -> Iterator[None]:
        with explain_out_of_memory("taking over weights", self._memory):
            self._drain()
            self._wake("weights")  # its cache comes last: until then the memory may be needed for the weights
            yield
            self._wake("kv_cache")
        self._is_asleep = False
        self.reset_prefix_cache()
        if self.config.images:
            self._engine.reset_encoder_cache()

    def sleep(self) -> None:
        """Free the memory of weights and cache until the next `load_weights` or `load_adapters`.

        There must be no requests. Base weights of adapters are kept in the CPU's memory meanwhile.
        """
        self._drain()
        self.reset_prefix_cache()
        self._engine.sleep(level=1 if self.config.lora_rank else 2)
        torch.cuda.empty_cache()
        self._is_asleep = True

    def reset_prefix_cache(self) -> None:
        """Drop the cached keys and values of prompts. Raises `RuntimeError` if there are requests."""
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache: it still has a request")

    def _drain(self) -> None:
        """Complete steps that were scheduled ahead for requests that are gone: they hold blocks of the cache."""
        core = getattr(self._engine.engine_core, "engine_core", None)
        while getattr(core, "batch_queue", None):
            self._engine.step()

    def _wake(self, tag: str) -> None:
        if self._is_asleep:
            self._engine.wake_up(tags=[tag])

    def close(self) -> None:
        """Stop vLLM and free its memory."""
        self._shutdown()
        self.requests.clear()
        self._engine = self._reader = None  # type: ignore[assignment]
        gc.collect()  # its objects refer to each other
        if torch.cuda.is_initialized():
            with suppress(RuntimeError):  # of a GPU that has failed
                torch.cuda.empty_cache()  # else vLLM's allocator counts its blocks as in use, and takes no other engine


def _check_length(request: EngineRequest, length: int) -> None:
    """Raise `ValueError` if a prompt with images has another length in vLLM than where it was made."""
    expansion = request.expansion if isinstance(request, RequestSnapshot) else 0
    if expansion and length != (expected := len(request.prompt) + expansion):
        raise ValueError(
            f"a prompt with images has {length} tokens in vLLM and {expected} by the model's processor: use --engine hf"
        )


def _shut_down(engine: Any, folder: tempfile.TemporaryDirectory[str]) -> None:
    try:
        engine.engine_core.shutdown()
    finally:
        VLLMEngine._is_running = False
        folder.cleanup()
