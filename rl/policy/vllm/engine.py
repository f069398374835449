"""vLLM in this process: started with its side effects contained, then one token per request and step.

What remains after the start: the default process group of `torch.distributed` (taken over where there is one, gone once
the engine is closed), a NUMA policy for memory on machines with several nodes, and on a CPU build `torch.cuda.Stream`,
`torch.Tensor.pin_memory` and their like, which do nothing any more.
"""

from __future__ import annotations

import os
import random
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rl.policy.vllm.asked import KEY, Asked, Entry, Step
from rl.policy.vllm.memory import advised
from rl.policy.vllm.plan import Plan

# Read by vLLM, some when it is imported. The second of V1's runners takes no processors of logits.
VARIABLES = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_V2_MODEL_RUNNER": "0"}
# Unless they are set already. A forked worker would hold open what the engine's process does.
WISHES = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


class Engine:
    """A running vLLM as planned; it has no weights before the first `load` or `receive`.

    There can be one at a time in a process, because closing one takes away what another needs. `asked` are the requests
    that vLLM holds, by key; `cached` counts the prompt tokens that were not computed again.
    """

    _running: ClassVar[bool] = False

    def __init__(self, plan: Plan, home: str | None = None) -> None:
        """Start; what it writes goes to `home`, or where temporary files go.

        Raises `ValueError`, in one line, where vLLM cannot compute the model or lacks memory.
        """
        if Engine._running:
            raise ValueError("an engine of vLLM runs in this process already; close it first, or use vllm:process")
        self.context, self.sleeps, self._asleep = plan.context, plan.sleeps, False
        self.asked: dict[int, Asked] = {}
        self.cached = 0
        self._new: set[int] = set()  # requests without a token yet
        self._numbers, self._memory = count(), plan.room.words
        with _contained(), advised("at its start", self._memory):
            self._engine = _started(plan, home)
        Engine._running = True
        self._end = weakref.finalize(self, _stopped, self._engine)

    def add(self, asked: Asked, key: int | None = None) -> int:
        """Take in a request that goes on behind its tokens; its key. It must have room for a token."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        key = next(self._numbers) if key is None else key
        tokens = [*asked.prompt, *asked.ids]
        how = SamplingParams(
            temperature=0.0,  # there is one token left to take
            max_tokens=min(asked.params.max_tokens - len(asked.ids), self.context - len(tokens)),
            stop_token_ids=list(asked.params.stop),
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args={KEY: (key, asked.params)},
        )
        self.asked[key] = asked
        if not asked.ids:
            self._new.add(key)
        self._engine.add_request(str(key), {"prompt_token_ids": tokens}, how)
        return key

    def drop(self, keys: Iterable[int]) -> None:
        """Let go of requests; those that are not there any more are left out."""
        here = [key for key in keys if self.asked.pop(key, None) is not None]
        if here:
            self._new.difference_update(here)
            self._engine.abort_request([str(key) for key in here])

    def step(self) -> list[Step]:
        """Compute one step. Not every request need have a token after it: a long prompt takes several."""
        found = []
        with advised("while sampling", self._memory):
            outputs = self._engine.step()
        all_drawn = self._drawn()
        for output in outputs:
            key = int(output.request_id)
            tokens = list(output.outputs[0].token_ids)
            drawn = all_drawn.get(key)
            if drawn is None or tokens != [drawn.token]:
                raise RuntimeError(f"vLLM took {tokens}, and {drawn and drawn.token} was drawn")
            if key in self._new:
                self._new.discard(key)
                self.cached += output.num_cached_tokens or 0
            if output.finished:
                del self.asked[key]
            found.append(Step(key, drawn, output.finished))
        return found

    def _drawn(self) -> dict[int, Entry]:
        """What vLLM's workers drew in the last step: each the same, or the tokens that they have cached differ."""
        drawn, *others = self._engine.model_executor.collective_rpc("turnwise_drawn")
        tokens = [entry.token for entry in drawn.values()]
        if any([entry.token for entry in other.values()] != tokens for other in others):
            raise RuntimeError("vLLM's workers drew different tokens from the same logits")
        return drawn

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Put weights in place, and forget every key and value that older ones gave; wakes one that sleeps."""
        with advised("taking over weights", self._memory):
            self._wake("weights")  # its cache comes last: until then the memory may be needed for the weights
            self._engine.model_executor.driver_worker.worker.reload_weights(weights_iterator=iter(weights))
            self._wake("kv_cache")
        self._asleep = False
        self.forget()

    def receive(self, path: str, tied: Mapping[str, str]) -> None:
        """`load` what `rl.policy.vllm.parcel.pack` wrote, by vLLM's interface for weights of another process."""
        ask = self._engine.model_executor.collective_rpc
        with advised("taking over weights", self._memory):
            self._wake("weights")
            ask("start_weight_update")
            ask("update_weights", kwargs={"update_info": {"path": path, "tied": dict(tied)}})
            ask("finish_weight_update")
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


def _started(plan: Plan, home: str | None) -> Any:
    os.environ.update(VARIABLES)
    for name, value in WISHES.items():
        os.environ.setdefault(name, value)
    from vllm.config import WeightTransferConfig

    from rl.policy.vllm.drawing import Drawing
    from rl.policy.vllm.worker import BACKEND, Extension

    options = {**plan.room.options}
    if plan.sleeps:
        options["enable_sleep_mode"] = True
    if plan.parallel > 1:
        options |= {"tensor_parallel_size": plan.parallel, "distributed_executor_backend": "mp"}
    with tempfile.TemporaryDirectory(prefix="turnwise-", dir=home) as described:
        Path(described, "config.json").write_text(plan.config, encoding="utf-8")  # alone: the weights come over later
        engine = _launched(
            plan,
            model=described,
            logits_processors=[Drawing],
            worker_extension_cls=f"{Extension.__module__}.{Extension.__qualname__}",
            weight_transfer_config=WeightTransferConfig(backend=BACKEND),
            **options,
        )
    engine.model_executor.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {}})
    return engine


def _launched(plan: Plan, **given: Any) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    options = EngineArgs(
        load_format="dummy",
        skip_tokenizer_init=True,
        generation_config="vllm",  # ours alone
        dtype=str(plan.dtype).removeprefix("torch."),  # type: ignore[arg-type]
        max_model_len=plan.context,
        max_num_seqs=plan.slots,
        enforce_eager=True,
        enable_prefix_caching=True,
        async_scheduling=False,  # a step ends with its tokens
        disable_log_stats=True,
        **given,
    )
    try:
        return LLMEngine.from_engine_args(options)
    except torch.OutOfMemoryError:
        raise
    except (ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ValueError(
            f"vLLM does not start ({plan.room.words}): {' '.join(lines[:3]) or type(error).__name__}"
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
    gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
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
