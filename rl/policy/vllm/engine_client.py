"""A client with the methods of `VLLMEngine` for one in another process, which may use other devices, or several."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from torch import Tensor

from rl.policy.vllm.engine_config import EngineConfig
from rl.policy.vllm.process import EngineLost, EngineProcess
from rl.policy.vllm.requests import EngineRequest, StepOutput, UnsupportedAdapters, as_snapshot, from_columns
from rl.policy.vllm.shared_weights import release_shared, share_weights
from rl.policy.vllm.weight_file import write_weights
from rl.processes.shared_folder import make_folder

# Errors that the user can fix or that have a fallback; a new process would raise them again.
RERAISED_ERRORS = {error.__name__: error for error in (ValueError, FloatingPointError, UnsupportedAdapters)}


class VLLMEngineClient:
    """A `VLLMEngine` in another process. Every method raises `EngineLost` if that is gone; then only `start` helps.

    A step is one message and its answer: requests that were added and aborted since the last message go with it. An
    engine that draws by itself computes a step ahead, while the caller reads the last one's tokens; so requests that
    are added wait one step. One with keyed draws does not, since then a reply's batches would depend on when it began.
    """

    def __init__(self, config: EngineConfig, environment: Mapping[str, str]) -> None:
        """Start the process; `environment` is added to this process's. Raises as `VLLMEngine` does."""
        self.config, self.context, self.can_sleep = config, config.context, config.can_sleep
        self.num_cached_tokens, self._cached_tokens_before = 0, 0
        self._environment = dict(environment)
        self._process: EngineProcess | None = None
        try:
            self.start()
        except EngineLost as error:
            raise ValueError(f"vLLM does not start ({config.memory.description}): {error}") from error

    @property
    def pid(self) -> int:
        """Process id of the engine; 0 if it was never started."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start a process without weights and requests, and end an earlier one.

        Raises `EngineLost` if it dies or does not answer in time, `ValueError` if vLLM does not start, and
        `UnsupportedAdapters` if it would start without the adapters.
        """
        self.close()
        self.has_base_weights = False
        self.requests: dict[int, EngineRequest] = {}
        self._added_requests: dict[int, EngineRequest] = {}
        self._aborted_keys: list[int] = []
        self._keys, self._cached_tokens_before = count(), self.num_cached_tokens
        self._is_ahead = False
        self._early_outputs: list[StepOutput] = []  # of a step that another message was sent after
        self._process = EngineProcess(make_folder(self.config.weight_bytes), self._environment)
        try:
            self._call("start", self.config)
        except BaseException:
            self.close()
            raise

    def add_request(self, request: EngineRequest) -> int:
        """Add a request with the next message; return its key, the number by which `step` and `abort` name it."""
        key = next(self._keys)
        self.requests[key] = self._added_requests[key] = request
        return key

    def abort(self, keys: Iterable[int]) -> None:
        """Remove requests with the next message; keys that the engine does not hold are ignored."""
        unwanted_keys = set(keys)
        for key in unwanted_keys:
            if self.requests.pop(key, None) is not None and self._added_requests.pop(key, None) is None:
                self._aborted_keys.append(key)
        self._early_outputs = [output for output in self._early_outputs if output.key not in unwanted_keys]

    def step(self) -> list[StepOutput]:
        """Compute one step and return the new tokens. A request may have none: a long prompt takes several steps."""
        if not self._is_ahead and not self._early_outputs:
            self._send("step")
            self._is_ahead = True
        self._finish_step()
        if self.config.draws == "native" and self.requests:
            self._send("step")
            self._is_ahead = True
        results, self._early_outputs = self._early_outputs, []
        return results

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the weights, given as `(name in a checkpoint, tensor)`; remove adapters and the prefix cache.

        A process on the same GPU reads them where they are. Others get them in a file, which is deleted afterwards.
        """
        assert self._process is not None
        if self.config.shares_memory:
            handles, tensors = share_weights(weights)
            self._call("load_shared_weights", handles)
            del tensors
            release_shared()
            return
        path = Path(self._process.home, "weights.safetensors")
        try:
            self._call("load_weight_file", str(path), write_weights(weights, path, self.config.dtype))
        finally:
            path.unlink(missing_ok=True)

    def load_adapters(self, write: Callable[[Path], None]) -> int:
        """Replace the adapters by those that `write` saves in a folder in peft's layout.

        Returns the number of matrices with an adapter. The folder is deleted afterwards.
        """
        assert self._process is not None
        folder = Path(self._process.home, "adapters")
        try:
            write(folder)
            return self._call("load_adapter_folder", str(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sleep(self) -> None:
        """Free the memory of weights and cache until the next `load_weights` or `load_adapters`."""
        self._call("sleep")

    def reset_prefix_cache(self) -> None:
        """Drop the cached keys and values of prompts. Raises `RuntimeError` if there are requests."""
        self._call("reset_prefix_cache")

    def close(self) -> None:
        """End the process and everything that it started."""
        if self._process is not None:
            self._process.close()

    def _finish_step(self) -> None:
        """Wait for a step that is computed ahead, if one is, and take note of its tokens."""
        if not self._is_ahead:
            return
        self._is_ahead = False
        for output in from_columns(self._receive()):
            if output.key in self.requests:  # others were aborted meanwhile
                self._early_outputs.append(output)
                if output.is_finished:
                    del self.requests[output.key]

    def _call(self, method: str, *arguments: Any) -> Any:
        """Send a message of `rl.policy.vllm.engine_server` and return the method's result."""
        self._finish_step()
        self._send(method, *arguments)
        return self._receive()

    def _send(self, method: str, *arguments: Any) -> None:
        new_requests = [(key, as_snapshot(request)) for key, request in self._added_requests.items()]
        aborted_keys, self._added_requests, self._aborted_keys = self._aborted_keys, {}, []
        assert self._process is not None
        self._process.send((method, arguments, new_requests, aborted_keys))

    def _receive(self) -> Any:
        """Return the result of the method that the last message named. Raises its error."""
        assert self._process is not None
        status, *values = self._process.receive()
        if status == "failed":
            name, message = values
            raise (
                RERAISED_ERRORS[name](message)
                if name in RERAISED_ERRORS
                else EngineLost(f"the engine's process {self.pid} failed ({name}: {message})")
            )
        result, cached_tokens = values
        self.num_cached_tokens = self._cached_tokens_before + cached_tokens
        return result
