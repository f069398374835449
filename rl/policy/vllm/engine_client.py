"""A client with the methods of `VLLMEngine` for one in another process, which may use other devices, or several."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
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
    engine with native draws computes a step ahead, while the caller reads the tokens of the last one, so that new
    requests wait for one step more. With keyed draws it does not: there requests enter the step that they would enter
    in this process.
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
        self._last_method = ""  # that a message named
        self._unread_outputs: list[StepOutput] = []  # received, but not returned by `step` yet
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
        self._unread_outputs = [output for output in self._unread_outputs if output.key not in unwanted_keys]

    def step(self) -> list[StepOutput]:
        """Return the new tokens of a step: of one that was begun before, or else of the next one.

        A request may have none: a long prompt takes several steps.
        """
        assert self._process is not None
        if not (self._process.is_pending or self._unread_outputs):
            self._send("step")
        self._receive_step()
        outputs, self._unread_outputs = self._unread_outputs, []
        for output in outputs:
            if output.is_finished:
                del self.requests[output.key]
        if self.config.draws == "native" and self.requests:
            with suppress(EngineLost):  # the next step will notice; these tokens are sound
                self._send("step")
        return outputs

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the weights, given as `(name in a checkpoint, tensor)`; remove adapters and the prefix cache.

        A process on the same GPU reads them where they are. Others get them in a file, which is deleted afterwards.
        """
        assert self._process is not None
        if self.config.shares_memory:
            handles, tensors = share_weights(weights)
            try:
                self._call("load_shared_weights", handles)
            finally:
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

    def _receive_step(self) -> None:
        """Wait for the step that was begun, if one was, and take note of its tokens.

        Raises its error, which may be about requests that were aborted since.
        """
        assert self._process is not None
        if self._process.is_pending and self._last_method == "step":
            outputs = from_columns(self._receive())
            self._unread_outputs += [output for output in outputs if output.key in self.requests]

    def _call(self, method: str, *arguments: Any) -> Any:
        """Send a message of `rl.policy.vllm.engine_server` and return the method's result."""
        self._receive_step()
        self._send(method, *arguments)
        return self._receive()

    def _send(self, method: str, *arguments: Any) -> None:
        new_requests = [(key, as_snapshot(request)) for key, request in self._added_requests.items()]
        aborted_keys, self._added_requests, self._aborted_keys = self._aborted_keys, {}, []
        assert self._process is not None
        self._last_method = method
        self._process.send((method, arguments, new_requests, aborted_keys))

    def _receive(self) -> Any:
        """Return the result of the method that the last message named. Raises its error."""
        assert self._process is not None
        status, *values = self._process.receive()
        if status == "failed":
            name, message = values
            if name in RERAISED_ERRORS:
                raise RERAISED_ERRORS[name](message)
            self._process.kill()  # so that later messages meet no engine in a state that nobody knows
            raise EngineLost(f"the engine's process {self.pid} failed ({name}: {message})")
        result, cached_tokens = values
        self.num_cached_tokens = self._cached_tokens_before + cached_tokens
        return result
