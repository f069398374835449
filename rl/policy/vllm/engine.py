"""vLLM in this process: one token per request and step, from weights and adapters that are replaced in place."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from rl.policy.vllm.engine_config import Plan
from rl.policy.vllm.launch import contained, launched
from rl.policy.vllm.memory import advised
from rl.policy.vllm.requests import KEY, Asked, Entry, Step


class Engine:
    """A running vLLM as planned; it has no weights before the first `load` or `receive`.

    There can be one at a time in a process, because closing one takes away what another needs. `asked` are the requests
    that vLLM holds, by key; `cached` counts the prompt tokens that were not computed again. Whoever loads notes in
    `based` whether it has the frozen weights that adapters are trained on.
    """

    _running: ClassVar[bool] = False

    def __init__(self, plan: Plan, home: str | None = None) -> None:
        """Start; what it writes goes to `home`, or where temporary files go.

        Raises `ValueError`, in one line, where vLLM cannot compute the model or lacks memory.
        """
        if Engine._running:
            raise ValueError("an engine of vLLM runs in this process already; close it first, or use vllm:process")
        self.plan, self.context, self.sleeps, self._asleep = plan, plan.context, plan.sleeps, False
        self.based = False
        self.asked: dict[int, Asked] = {}
        self.cached = 0
        self._new: set[int] = set()  # requests without a token yet
        self._numbers, self._memory, self._home = count(), plan.room.words, home
        self._adapters: Any = None  # vLLM's request for those that are worn
        self._worn = count(1)
        with contained(), advised("at its start", self._memory):
            self._engine = launched(plan, home)
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
        self._engine.add_request(str(key), {"prompt_token_ids": tokens}, how, lora_request=self._adapters)
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
        """Put weights in place, take adapters off, forget all keys and values of older ones; wakes one that sleeps."""
        with self._taking_over():
            self._strip()
            self._engine.model_executor.driver_worker.worker.reload_weights(weights_iterator=iter(weights))

    def receive(self, path: str, tied: Mapping[str, str]) -> None:
        """`load` what `rl.policy.vllm.weight_file.pack` wrote, by vLLM's interface for weights of another process."""
        ask = self._engine.model_executor.collective_rpc
        with self._taking_over():
            self._strip()
            ask("start_weight_update")
            ask("update_weights", kwargs={"update_info": {"path": path, "tied": dict(tied)}})
            ask("finish_weight_update")

    def adapt(self, write: Callable[[Path], None]) -> int:
        """Put on the adapters that `write` leaves in a folder, as peft does; those that were worn come off.

        Gives the number of matrices that have one now. Forgets and wakes as `load` does.
        """
        with tempfile.TemporaryDirectory(prefix="turnwise-", dir=self._home) as folder:
            write(Path(folder))
            return self.wear(folder)

    def wear(self, folder: str) -> int:
        """`adapt` to what is in `folder`."""
        from vllm.lora.request import LoRARequest

        with self._taking_over():
            self._strip()
            number = next(self._worn)  # a new name and number: vLLM keeps adapters, keys and values by these
            self._adapters = LoRARequest(f"turnwise-{number}", number, folder)
            self._engine.add_lora(self._adapters)
            return min(self._engine.model_executor.collective_rpc("turnwise_adapted"))

    def _strip(self) -> None:
        if self._adapters is not None:
            self._engine.remove_lora(self._adapters.lora_int_id)
            self._adapters = None

    @contextmanager
    def _taking_over(self) -> Iterator[None]:
        with advised("taking over weights", self._memory):
            self._wake("weights")  # its cache comes last: until then the memory may be needed for the weights
            yield
            self._wake("kv_cache")
        self._asleep = False
        self.forget()

    def sleep(self) -> None:
        """Give the memory of weights and cache back until the next `load` or `adapt`; no request may be there.

        Weights that are not handed over again go to the CPU's memory for as long.
        """
        self.forget()
        self._engine.sleep(level=1 if self.plan.rank else 2)
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


def _stopped(engine: Any) -> None:
    try:
        engine.engine_core.shutdown()
    finally:
        Engine._running = False
