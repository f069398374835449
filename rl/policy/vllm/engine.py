"""vLLM in this process: started with its side effects contained, then one token per request and step.

What remains after the start: the default process group of `torch.distributed` (taken over where there is one, gone once
the engine is closed), a NUMA policy for memory on machines with several nodes, and on a CPU build `torch.cuda.Stream`,
`torch.Tensor.pin_memory` and their like, which do nothing any more.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import count
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rl.policy.forward import text_config
from rl.policy.vllm.ledger import KEY, Asked, Entry, Ledger
from rl.policy.vllm.memory import Room, advised, head_size

# Read by vLLM, some when it is imported. The second of V1's runners takes no processors of logits.
VARIABLES = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_V2_MODEL_RUNNER": "0"}
WISHES = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}  # unless they are set already
SMALLEST_HEAD = 32  # of vLLM's CPU kernels


class Step(NamedTuple):
    """What a request was given in one step; `ended` when vLLM has let go of it."""

    key: int
    drawn: Entry
    ended: bool


class Engine:
    """A running vLLM with the architecture of `model`; it has no weights before the first `load`.

    There can be one at a time in a process, because closing one takes away what another needs. One that `sleeps` can
    give its memory back for a while, which no CPU build does.
    """

    _running: ClassVar[bool] = False

    def __init__(
        self, model: nn.Module, *, slots: int, context: int, dtype: torch.dtype, room: Room, sleeps: bool = False
    ) -> None:
        """Start. Raises `ValueError`, in one line, where vLLM cannot compute the model or lacks memory."""
        if Engine._running:
            raise ValueError("an engine of vLLM runs in this process already; close it first")
        if room.options.get("block_size") and head_size(model) < SMALLEST_HEAD:
            raise ValueError(
                f"heads of size {head_size(model)}: vLLM on a CPU takes {SMALLEST_HEAD} or more; use --engine hf"
            )
        self.context, self.sleeps, self._asleep = context, sleeps, False
        self.ledger, self._memory = Ledger(), room.words
        self.cached = 0  # prompt tokens that were not computed again
        self._numbers = count()
        folder = _described(model)
        try:
            with _contained(), advised("at its start", room.words):
                options = {**room.options, "enable_sleep_mode": True} if sleeps else room.options
                self._engine = _started(folder, self.ledger, slots, context, dtype, room._replace(options=options))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        Engine._running = True
        self._end = weakref.finalize(self, _stopped, self._engine)

    def add(self, asked: Asked) -> int:
        """Take in a request that goes on behind its tokens; its key. It must have room for a token."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        key = next(self._numbers)
        tokens = [*asked.prompt, *asked.ids]
        how = SamplingParams(
            temperature=0.0,  # there is one token left to take
            max_tokens=min(asked.params.max_tokens - len(asked.ids), self.context - len(tokens)),
            stop_token_ids=list(asked.params.stop),
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args={KEY: key},
        )
        self.ledger.asked[key] = asked
        self._engine.add_request(str(key), {"prompt_token_ids": tokens}, how)
        return key

    def drop(self, keys: Iterable[int]) -> None:
        """Let go of requests; those that are not there any more are left out."""
        here = [key for key in keys if self.ledger.asked.pop(key, None) is not None]
        if here:
            self._engine.abort_request([str(key) for key in here])

    def step(self) -> list[Step]:
        """Compute one step. Not every request need have a token after it: a long prompt takes several."""
        found = []
        with advised("while sampling", self._memory):
            outputs = self._engine.step()
        for output in outputs:
            key = int(output.request_id)
            tokens = list(output.outputs[0].token_ids)
            drawn = self.ledger.drawn.get(key)
            if drawn is None or tokens != [drawn.token]:
                raise RuntimeError(f"vLLM took {tokens}, and {drawn and drawn.token} was drawn")
            if len(self.ledger.asked[key].ids) == 0:
                self.cached += output.num_cached_tokens or 0
            if output.finished:
                del self.ledger.asked[key]
            found.append(Step(key, drawn, output.finished))
        self.ledger.drawn.clear()
        return found

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Put weights in place, and forget every key and value that older ones gave; wakes one that sleeps."""
        with advised("taking over weights", self._memory):
            self._wake("weights")  # its cache comes last: until then the memory may be needed for the weights
            self._engine.model_executor.driver_worker.worker.reload_weights(weights_iterator=iter(weights))
            self._wake("kv_cache")
        self._asleep = False
        self.forget()

    def sleep(self) -> None:
        """Give the memory of weights and cache back until the next `load`; no request may be there."""
        self.forget()
        self._engine.sleep(level=2)
        torch.cuda.empty_cache()
        self._asleep = True

    def forget(self) -> None:
        """Drop what is cached of prompts; no request may be there."""
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("vLLM kept its cache of prompts: a request is still there")

    def _wake(self, what: str) -> None:
        if self._asleep:
            self._engine.wake_up(tags=[what])

    def close(self) -> None:
        """Stop, and free the memory."""
        self._end()


def _described(model: nn.Module) -> str:
    """A folder with the model's config alone; its weights come over later."""
    config: Any = deepcopy(text_config(model))
    config.architectures = [type(model).__name__]
    here = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="turnwise-", dir=here)
    config.save_pretrained(folder)
    return folder


def _started(folder: str, ledger: Ledger, slots: int, context: int, dtype: torch.dtype, room: Room) -> Any:
    os.environ.update(VARIABLES)
    for name, value in WISHES.items():
        os.environ.setdefault(name, value)
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    from rl.policy.vllm.drawing import drawing

    options = EngineArgs(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        generation_config="vllm",  # ours alone
        dtype=str(dtype).removeprefix("torch."),  # type: ignore[arg-type]
        max_model_len=context,
        max_num_seqs=slots,
        enforce_eager=True,
        enable_prefix_caching=True,
        async_scheduling=False,  # a step ends with its tokens
        disable_log_stats=True,
        logits_processors=[drawing(ledger)],
        **room.options,
    )
    try:
        return LLMEngine.from_engine_args(options)
    except torch.OutOfMemoryError:
        raise
    except (ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ValueError(
            f"vLLM does not start ({room.words}): {' '.join(lines[:3]) or type(error).__name__}"
        ) from error


def _stopped(engine: Any) -> None:
    try:
        engine.engine_core.shutdown()
    finally:
        Engine._running = False


@contextmanager
def _contained() -> Iterator[None]:
    """Undo what vLLM does to the process: global luck, threads, variables that child processes would inherit."""
    before, set_num_threads = dict(os.environ), torch.set_num_threads
    luck, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002 (vLLM's, not ours)
    gpus = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    try:
        with torch.random.fork_rng(devices=gpus), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(luck)
        np.random.set_state(numbers)  # noqa: NPY002
        torch.set_num_threads = set_num_threads  # type: ignore[assignment]
        for name in os.environ.keys() - before.keys():
            if not name.startswith("VLLM_"):
                del os.environ[name]
        os.environ.update(before)
